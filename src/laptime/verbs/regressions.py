"""Regressions: has a number become worse than that of a stored run, or of an earlier revision?

Latency is compared wherever both sides have it, interleaved where one run measured both. Other numbers are
compared where a `[[budget]]` names them; and the numbers that a benchmark reported itself, where it has no
timed calls. A case that cannot be compared is undecided, never left out.
"""

from __future__ import annotations

import re
import shlex

from msgspec import structs

from laptime.analysis import budgets
from laptime.analysis.between_runs import Spread
from laptime.analysis.budgets import metric_change
from laptime.analysis.compare import compare_in_shared_regime
from laptime.analysis.summary import REPORTED, summarize
from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.case import Case, case_key
from laptime.records.check import Verdict
from laptime.records.comparison import Comparison
from laptime.records.quantity import UNDECIDED
from laptime.records.run import Run
from laptime.verbs.check import Rules, failed
from laptime.verbs.compare import DF_APART, compare_runs, shared_cases, spread_between
from laptime.verbs.history import recent

INTERLEAVED = Spread(0.0, DF_APART)
"""What lies between two sides of one run: it was measured side by side."""

Pair = tuple[Case, Case]


def against_run(run: Run, baseline: Run, rules: Rules, *, force: bool = False) -> list[Verdict]:
    """The verdict on every case of a run against its baseline.

    Raises:
        UsageError: they were made under different conditions and `force` is not set, or share no case, or a
            budget names a metric that cannot be compared.
    """
    measured = {case.key for case in baseline.cases if case.status not in ("failed", "skipped")}
    lost = [case for case in run.cases if case.status in ("failed", "skipped") and case.key in measured]
    verdicts = [failed(case, "latency") for case in lost]
    if lost and len(lost) == len(run.cases):
        return verdicts
    earlier = recent()
    compared = compare_runs(baseline, run, force, earlier=earlier)
    pairs = shared_cases(baseline, run)
    between = spread_between(baseline, run, earlier)
    verdicts += of_latency(run, compared, rules) + _of_metrics(pairs, compared, rules, between)
    known = {case.key for _, case in pairs}
    if run.verb == "import":  # another tool's benchmark, which laptime cannot measure
        verdicts = [
            structs.replace(each, next=f"laptime history {shlex.quote(each.case)}") if each.next else each
            for each in verdicts
        ]
    return verdicts + [_without_baseline(case) for case in run.cases if _is_new(case, known)]


def of_latency(run: Run, compared: list[Comparison], rules: Rules) -> list[Verdict]:
    """The verdicts on comparisons, each with the tolerance that holds for its case."""
    cases = {case.key: case for case in run.cases}
    return [
        budgets.regression(each, _tolerances(cases[each.candidate], rules)["latency"]) for each in compared
    ]


def of_revision(run: Run, rules: Rules) -> list[Verdict]:
    """The verdicts of a run that measured every target at a revision and now; they name the case, not
    its copy."""
    verdicts = of_latency(run, run.comparisons, rules)
    verdicts += _of_metrics(_pairs(run), run.comparisons, rules, INTERLEAVED)
    return [structs.replace(verdict, case=re.sub(r"/again=\d+$", "", verdict.case)) for verdict in verdicts]


def _of_metrics(
    pairs: list[Pair], compared: list[Comparison], rules: Rules, between: Spread
) -> list[Verdict]:
    """The verdicts on numbers that are no latency: those that budgets name, and those of untimed cases."""
    timed = {each.candidate for each in compared}
    verdicts = []
    for before, case in pairs:
        tolerances = _tolerances(case, rules)
        default = tolerances.pop("latency")
        if case.key not in timed:
            reported = _reported(before, case)
            tolerances = {**dict.fromkeys(reported, default), **tolerances}
            if not reported:
                verdicts.append(_incomparable(case))
        verdicts += [
            metric_change(before, case, _directed(case, name), tolerance, between)
            for name, tolerance in tolerances.items()
        ]
    return verdicts


def _tolerances(case: Case, rules: Rules) -> dict[str, str | float]:
    """How much worse each metric of a case may be; the last budget that names it counts."""
    asked = {
        budget.metric: budget.regression
        for budget in rules.budget
        if budget.regression and budget.is_for(case)
    }
    return {"latency": rules.tolerance or budgets.TOLERANCE, **asked}


def _reported(before: Case, case: Case) -> list[str]:
    """The numbers that a benchmark reported itself, on both sides, of which it is known what is worse."""
    ours, theirs = summarize(case), summarize(before)
    return [
        tag
        for tag, stat in ours.items()
        if tag in theirs and stat.better != "none" and (tag.startswith(REPORTED) or "/" not in tag)
    ]


def _directed(case: Case, name: str) -> str:
    """The metric, when the case has it and it is known which direction is worse.
    Raises UsageError: one of them is not so.
    """
    stat, names = budgets.named(case, name), budgets.names(case)
    if stat is None:
        near = closest(name, names)
        raise UsageError(
            f"{case.key} has no metric {name!r} to look for a regression in",
            why=f"it has {', '.join(names[2:8]) or 'none'} ...",
            next=f"did you mean {near!r}?" if near else "laptime show --json   lists them all",
        )
    if stat.better == "none":
        raise UsageError(
            f"a regression of {name!r} cannot be judged",
            why="laptime does not know whether a higher value is better or worse",
            next=f"[[budget]] metric = {name!r} with max = or min = says what is allowed",
        )
    return name


def _incomparable(case: Case) -> Verdict:
    return _undecided(
        case,
        "it has no timed calls in a regime that its baseline has, and reported nothing of which it is known "
        "whether more is worse",
    )


def _without_baseline(case: Case) -> Verdict:
    return _undecided(case, "the baseline has no such case")


def _undecided(case: Case, sentence: str) -> Verdict:
    return Verdict(kind="regression", case=case.key, metric="latency", word=UNDECIDED, sentence=sentence)


def _is_new(case: Case, known: set[str]) -> bool:
    return case.status not in ("failed", "skipped") and case.key not in known


def present(run: Run) -> Run:
    """Of a run of every target at a revision and now, what is true now, under the keys it had alone."""
    axes = {c.key: {name: v for name, v in c.axes.items() if name != "again"} for c in run.cases}
    return structs.replace(
        run,
        cases=[
            structs.replace(case, key=case_key(case.target, axes[case.key]), axes=axes[case.key])
            for case in run.cases
            if _is_second(case)
        ],
    )


def of_pairs(run: Run) -> list[Comparison]:
    """Comparisons of the cases of a run that measured every target twice, the second as candidate."""
    compared = (compare_in_shared_regime(before, case) for before, case in _pairs(run))
    return [comparison for comparison in compared if comparison is not None]


def _pairs(run: Run) -> list[Pair]:
    first = {_twin(case): case for case in run.cases if not _is_second(case)}
    return [(first[_twin(case)], case) for case in run.cases if _is_second(case) and _twin(case) in first]


def _is_second(case: Case) -> bool:
    return int(case.axes.get("again", 1)) % 2 == 0


def _twin(case: Case) -> tuple[object, ...]:
    axes = {name: value for name, value in case.axes.items() if name != "again"}
    return (case.target, *axes.items())
