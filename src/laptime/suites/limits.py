"""Budgets of a benchmark held against what was measured."""

from __future__ import annotations

from laptime.analysis import budgets
from laptime.analysis.summary import Stat, headline, main_throughput, summarize
from laptime.kit.errors import UsageError
from laptime.kit.quantity import amount, share
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
    stats = summarize(case)
    stat = _stat(case, name, stats)
    if stat is None:
        near = closest(name, ["latency", "throughput", *stats])
        advice = f"did you mean {near!r}?" if near else ""
        return _undecided(case.key, kind, name, f"there is no number called {name!r}", advice)
    try:
        value = amount(limit, stat.unit) if isinstance(limit, str) else float(limit)
    except UsageError as error:
        return _undecided(case.key, kind, name, error.what, error.next)
    return budgets.judge(case, stat, kind, value)  # type: ignore[arg-type]


def _stat(case: Case, name: str, stats: dict[str, Stat]) -> Stat | None:
    if name == "latency":
        return headline(case)
    return main_throughput(case) if name == "throughput" else stats.get(name)


def regressions(benchmark: Benchmark, run: Run, compared: list[Comparison] | str) -> list[Verdict]:
    """A verdict on every case that the baseline has, too.

    Args:
        compared: the run against its baseline, or why there is no comparison.
    """
    if benchmark.regression is None:
        return []
    if isinstance(compared, str):
        key = run.cases[0].key if run.cases else benchmark.name
        return [_undecided(key, "regression", "latency", compared, "")]
    allowed = benchmark.regression
    tolerance = share(allowed) if isinstance(allowed, str) else allowed
    return [budgets.regression(each, tolerance) for each in compared]


def _undecided(case: str, kind: str, metric: str, sentence: str, next_step: str) -> Verdict:
    return Verdict(
        kind=kind,  # type: ignore[arg-type]
        case=case,
        metric=metric,
        word="undecided",
        sentence=sentence,
        next=next_step,
    )
