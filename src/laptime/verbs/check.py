"""`check`: is a run within its budgets, and no slower than its baseline?"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from laptime.analysis import budgets
from laptime.analysis.budgets import with_verdicts as with_verdicts
from laptime.analysis.compare import compare_in_shared_regime
from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.case import Case, case_key
from laptime.records.comparison import Comparison
from laptime.records.run import Run
from laptime.records.verdict import Verdict
from laptime.records.verdict import summary as summary
from laptime.suites.loading import refuse_unknown_keys
from laptime.verbs.compare import compare_runs
from laptime.verbs.history import recent

FILE = Path("laptime.toml")


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[budget]]` of laptime.toml.

    Attributes:
        case: pattern of case keys or targets, as file names are matched.
        metric: tag of a statistic, or latency (the headline: the median), or throughput.
        max, min: with a unit (`30 ms`), or a number in the metric's SI unit.
        regression: share by which matching cases may be slower than their baseline.
    """

    case: str = "*"
    metric: str = "latency"
    max: str | float | None = None
    min: str | float | None = None
    regression: str | None = None


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What laptime.toml asks for. Its other tables belong to other commands.

    Attributes:
        budget: limits of single numbers.
        against: the run that a check is against unless the line says otherwise.
        tolerance: share by which a case may be slower than its baseline.
    """

    budget: list[Budget] = []
    against: str = ""
    tolerance: str = ""


def read_rules(path: Path) -> Rules:
    """The `[[budget]]` tables and the `[check]` table of a file.

    Raises:
        UsageError: it cannot be read, is no TOML, or has unknown keys.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML", why=str(error), next="[[budget]]  max = '30 ms'") from error
    check, tables = document.get("check", {}), document.get("budget", [])
    refuse_unknown_keys(check, ("against", "tolerance"), str(path))
    for table in tables:
        refuse_unknown_keys(table, Budget.__struct_fields__, str(path))
    try:
        return msgspec.convert({**check, "budget": tables}, Rules)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path} asks for something impossible", why=str(error)) from error


def against_budgets(run: Run, rules: Rules) -> list[Verdict]:
    """The verdict on every budget and every case that it is meant for.

    Raises:
        UsageError: a budget matches no case, names no metric, or its limit cannot be read.
    """
    verdicts: list[Verdict] = []
    for budget in rules.budget:
        cases = [case for case in run.cases if _matches(case, budget.case)]
        if not cases:
            raise UsageError(
                f"the budget of {budget.case!r} matches no case of this run",
                why=f"its cases: {', '.join(case.key for case in run.cases[:3]) or 'none'}",
                next=f"case = {run.cases[0].target + '*'!r}" if run.cases else "laptime list",
            )
        for case in cases:
            if budget.max is not None or budget.min is not None:
                verdicts += _limits(case, budget)
    return verdicts


def _matches(case: Case, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(text, pattern) or text == pattern for text in (case.key, case.target))


def _limits(case: Case, budget: Budget) -> list[Verdict]:
    if case.status in ("failed", "skipped"):
        return [_failed(case, budget.metric)]
    stat = budgets.named(case, budget.metric)
    if stat is None:
        known = budgets.names(case)
        near = closest(budget.metric, known)
        raise UsageError(
            f"{case.key} has no metric {budget.metric!r}",
            why=f"it has {', '.join(known[2:8]) or 'none'} ...",
            next=f"did you mean {near!r}?" if near else "laptime show --json   lists them all",
        )
    limits = (("max", budget.max), ("min", budget.min))
    return [budgets.judge(case, stat, kind, limit) for kind, limit in limits if limit is not None]  # type: ignore[arg-type]


def against_run(run: Run, baseline: Run, rules: Rules, *, force: bool = False) -> list[Verdict]:
    """The verdict on every case that both runs have.

    Raises:
        UsageError: they were made under different conditions and `force` is not set, or share no case.
    """
    measured = {case.key for case in baseline.cases if case.status not in ("failed", "skipped")}
    lost = [case for case in run.cases if case.status in ("failed", "skipped") and case.key in measured]
    verdicts = [_failed(case, "latency") for case in lost]
    if lost and len(lost) == len(run.cases):
        return verdicts
    return verdicts + regressions(run, compare_runs(baseline, run, force, earlier=recent()), rules)


def _failed(case: Case, metric: str) -> Verdict:
    """What has no number is no better than what has a bad one."""
    what = case.failure.what if case.failure else f"it was {case.status}"
    return Verdict(kind="measured", case=case.key, metric=metric, word="broken", sentence=what)


def regressions(run: Run, compared: list[Comparison], rules: Rules) -> list[Verdict]:
    """The verdicts on comparisons, each with the tolerance that holds for its case."""
    cases = {case.key: case for case in run.cases}
    return [budgets.regression(each, _tolerance(cases[each.candidate], rules)) for each in compared]


def of_revision(run: Run, rules: Rules) -> list[Verdict]:
    """The verdicts of a run that measured every target at a revision and now; they name the case, not
    its copy."""
    return [
        structs.replace(verdict, case=re.sub(r"/again=\d+$", "", verdict.case))
        for verdict in regressions(run, run.comparisons, rules)
    ]


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


def _tolerance(case: Case, rules: Rules) -> str | float:
    wanted = [
        budget.regression for budget in rules.budget if budget.regression and _matches(case, budget.case)
    ]
    return (wanted[-1] if wanted else rules.tolerance) or budgets.TOLERANCE


def of_pairs(run: Run) -> list[Comparison]:
    """Comparisons of the cases of a run that measured every target twice, the second as candidate."""
    first = {_pair(case): case for case in run.cases if not _is_second(case)}
    second = [case for case in run.cases if _is_second(case) and _pair(case) in first]
    compared = (compare_in_shared_regime(first[_pair(case)], case) for case in second)
    return [comparison for comparison in compared if comparison is not None]


def _is_second(case: Case) -> bool:
    return int(case.axes.get("again", 1)) % 2 == 0


def _pair(case: Case) -> tuple[object, ...]:
    axes = {name: value for name, value in case.axes.items() if name != "again"}
    return (case.target, *axes.items())
