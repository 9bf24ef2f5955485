"""Reports for other tools say only what these tools know: timings of cases."""

from __future__ import annotations

from laptime.kit.errors import UsageError
from laptime.records.run import Run


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
