"""Reports for other tools say only what these tools know: timings of cases."""

from __future__ import annotations

from datetime import datetime

from laptime.kit.errors import UsageError
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import Series


def refusal(run: Run, format: str, holds: str) -> UsageError:
    """The error of a report that can say nothing about a run.

    Args:
        holds: what a file of this format holds.
    """
    kind = "tuning session" if run.tuning else "profile" if run.profile else f"{run.verb} run"
    return UsageError(
        f"the {format} report has nothing to say about this {kind}",
        why=f"a file of this format holds {holds}; run {run.id} has none",
        next=f"laptime show {run.id} --format json",
    )


def timings(run: Run, format: str) -> list[tuple[Case, Series]]:
    """The timed calls of every case that was measured, by regime.

    Raises:
        UsageError: the run has none.
    """
    timed = [
        (case, series)
        for case in run.cases
        for series in case.samples
        if series.metric.tag == "latency" and series.samples and case.status != "failed"
    ]
    if not timed:
        raise refusal(run, format, "timings of cases")
    return timed


def unix_time(started: str) -> float:
    """Seconds since 1970; 0 where a file does not tell."""
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return 0.0
