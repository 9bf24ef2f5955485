"""One file a format: how a document is written, and which suffixes ask for it."""

from pathlib import Path

from laptime.kit import registry
from laptime.kit.clock import moment
from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import Series


def format_of(path: Path) -> str:
    """The name of the report that is written to a file of this suffix.
    Raises UsageError: there is none; says which suffixes there are."""
    formats = {name: registry.load("reports", name) for name in registry.names("reports")}
    suffixes = {suffix: name for name, format in formats.items() for suffix in format.SUFFIXES}
    ends = [path.name[at:].lower() for at in range(1, len(path.name)) if path.name[at] == "."]
    found = next((suffixes[end] for end in ends if end in suffixes), None)
    if found is None:
        near = closest(path.suffix.lower(), suffixes)
        raise UsageError(
            f"there is no report format for {path.suffix or 'a file without suffix'}: {path}",
            why=f"known suffixes: {' '.join(sorted(suffixes))}",
            next=f"-o {path.with_suffix(near or '.html')}" if path.name else "-o report.html",
        )
    return found


def refusal(run: Run, format: str, holds: str) -> UsageError:
    """The error of a report that can say nothing about a run. holds: what a file of this format holds."""
    kind = "tuning session" if run.tuning else "profile" if run.profile else f"{run.verb} run"
    return UsageError(
        f"the {format} report has nothing to say about this {kind}",
        why=f"a file of this format holds {holds}; run {run.id} has none",
        next=f"laptime show {run.id} --format json",
    )


def timings(run: Run, format: str) -> list[tuple[Case, Series]]:
    """The timed calls of every case that was measured, by regime. Raises UsageError: the run has none."""
    told = [(case, series) for case in run.cases if case.status != "failed" for series in case.samples]
    timed = [(case, each) for case, each in told if each.metric.tag == "latency" and each.samples]
    if not timed:
        raise refusal(run, format, "timings of cases")
    return timed


def unix_time(started: str) -> float:
    """Seconds since 1970; 0 if a file does not say."""
    try:
        return moment(started).timestamp()
    except ValueError:
        return 0.0
