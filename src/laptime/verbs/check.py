"""`check`: is a run within its budgets? Whether it is worse than a baseline is asked in `regressions`."""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from laptime.analysis import budgets
from laptime.analysis.budgets import refuse_unknown
from laptime.analysis.budgets import with_verdicts as with_verdicts
from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.case import Case
from laptime.records.check import Verdict
from laptime.records.check import summary as summary
from laptime.records.quantity import BROKEN
from laptime.records.run import Run
from laptime.suites.loading import refuse_unknown_keys

FILE = Path("laptime.toml")


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[budget]]` of laptime.toml.

    Attributes:
        case: pattern of case keys or targets, as file names are matched.
        metric: tag of a statistic, or latency (the headline: the median), or throughput.
        max, min: with a unit (`30 ms`), or a number in the metric's SI unit.
        regression: share by which the metric may be worse than its baseline's in matching cases.
    """

    case: str = "*"
    metric: str = "latency"
    max: str | float | None = None
    min: str | float | None = None
    regression: str | None = None

    def is_for(self, case: Case) -> bool:
        """Whether the pattern matches a case."""
        texts = (case.key, case.target)
        return any(fnmatch.fnmatchcase(text, self.case) or text == self.case for text in texts)


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
    Raises UsageError: it cannot be read, is no TOML, or has unknown keys or metrics.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read", why=error.strerror or str(error), next="--budgets laptime.toml"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML", why=str(error), next="[[budget]]  max = '30 ms'") from error
    check, tables = document.get("check", {}), document.get("budget", [])
    refuse_unknown_keys(check, ("against", "tolerance"), str(path))
    for table in tables:
        refuse_unknown_keys(table, Budget.__struct_fields__, str(path))
        if isinstance(table, dict) and isinstance(metric := table.get("metric"), str):
            refuse_unknown(metric)
        if isinstance(table, dict) and not {"max", "min", "regression"} & table.keys():
            raise UsageError(
                f"a [[budget]] in {path} sets no limit",
                why="it has neither max, min, nor regression",
                next="[[budget]]  max = '30 ms'",
            )
    try:
        return msgspec.convert({**check, "budget": tables}, Rules)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path} has an impossible value", why=str(error), next="[[budget]]  max = '30 ms'"
        ) from error


def against_budgets(run: Run, rules: Rules) -> list[Verdict]:
    """The verdict on every budget and every case that it is meant for.
    Raises UsageError: a budget matches no case, names no metric, or its limit cannot be read.
    """
    verdicts: list[Verdict] = []
    for budget in rules.budget:
        cases = [case for case in run.cases if budget.is_for(case)]
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


def _limits(case: Case, budget: Budget) -> list[Verdict]:
    if case.status in ("failed", "skipped"):
        return [failed(case, budget.metric)]
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


def failed(case: Case, metric: str) -> Verdict:
    """What has no number is no better than what has a bad one."""
    what = case.failure.what if case.failure else f"it was {case.status}"
    return Verdict(kind="measured", case=case.key, metric=metric, word=BROKEN, sentence=what)
