"""Budgets of a benchmark held against what was measured."""

from __future__ import annotations

from laptime.analysis import budgets
from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.case import Case
from laptime.records.comparison import Comparison
from laptime.records.run import Run
from laptime.records.verdict import Verdict
from laptime.suites import Benchmark


def judged(benchmark: Benchmark, run: Run) -> list[Verdict]:
    """A verdict on every limit in every case that has numbers; failed cases tell themselves."""
    return [
        _verdict(case, name, kind, limit)
        for case in run.cases
        if case.status == "ok"
        for kind, limits in (("max", benchmark.max), ("min", benchmark.min))
        for name, limit in limits.items()
    ]


def _verdict(case: Case, name: str, kind: str, limit: str | float) -> Verdict:
    stat = budgets.named(case, name)
    if stat is None:
        near = closest(name, budgets.names(case))
        advice = f"did you mean {near!r}?" if near else ""
        return _undecided(case.key, kind, name, f"there is no number called {name!r}", advice)
    try:
        return budgets.judge(case, stat, kind, limit)  # type: ignore[arg-type]
    except UsageError as error:
        return _undecided(case.key, kind, name, error.what, error.next)


def regressions(benchmark: Benchmark, run: Run, compared: list[Comparison] | str) -> list[Verdict]:
    """A verdict on every case that has numbers: undecided where the baseline has none.

    Args:
        compared: the run against its baseline, or why there is no comparison.
    """
    if benchmark.regression is None:
        return []
    if isinstance(compared, str):
        key = run.cases[0].key if run.cases else benchmark.name
        return [_undecided(key, "regression", "latency", compared, "")]
    known = {each.candidate for each in compared}
    new = [case for case in run.cases if case.status == "ok" and case.key not in known]
    return [budgets.regression(each, benchmark.regression) for each in compared] + [
        _undecided(case.key, "regression", "latency", "the baseline has no such case", "") for case in new
    ]


def _undecided(case: str, kind: str, metric: str, sentence: str, next_step: str) -> Verdict:
    return Verdict(
        kind=kind,  # type: ignore[arg-type]
        case=case,
        metric=metric,
        word="undecided",
        sentence=sentence,
        next=next_step,
    )
