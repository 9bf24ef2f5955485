"""Judgements of numbers: a check (can a case be trusted?), a finding (something worth telling, with its
next step) and a verdict (does a number keep what was asked of it?)."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from laptime.kit.errors import ExitCode
from laptime.kit.text import count
from laptime.records.quantity import UNDECIDED, Interval, Judgement

Outcome = Literal["ok", "note", "warn", "fail"]
Trust = Literal["trusted", "noisy", "invalid"]


class Check(Struct, frozen=True, omit_defaults=True):
    """The answer of one check."""

    name: str  # file name of the check
    outcome: Outcome  # ok; note (worth saying, trust unharmed); warn (noisy); fail (invalid)
    sentence: str  # what was found, with its numbers; written once, shown everywhere
    next: str = ""  # the command or change that would mend it


def trust(checks: list[Check]) -> Trust:
    """A failed check makes a case invalid, a warning makes it noisy."""
    outcomes = {check.outcome for check in checks}
    if "fail" in outcomes:
        return "invalid"
    return "noisy" if "warn" in outcomes else "trusted"


Severity = Literal["info", "advice", "problem"]


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One observation.

    Attributes:
        kind: stable name for machines (`batch/knee`, `batch/largest`).
        severity: info, advice or problem.
        sentence: what was found, with its numbers.
        evidence: the numbers themselves.
        next: what to type or change.
        cases: keys of the cases it speaks of.
        gain: upper bound on what the change can save, in seconds per step; None if it is unknown.
        change: what to change, in words or one line of code.
        optimization: the `laptime tune` optimization that makes this change, "" when there is none.
        stack: where in the program, innermost frame first.
        rows: rows of the profile's tables that it rests on: `operators/aten::item`, `kernels/...`."""

    kind: str
    severity: Severity = "info"
    sentence: str
    evidence: dict[str, Any] = {}
    next: str = ""
    cases: list[str] = []
    gain: float | None = None
    change: str = ""
    optimization: str = ""
    stack: list[str] = []
    rows: list[str] = []


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question that `laptime check` or a suite has answered."""

    # max, min (a budget), regression (against a baseline), measured (there had to be a number)
    kind: Literal["max", "min", "regression", "measured"]
    case: str  # key of the case
    metric: str  # tag of the statistic
    word: Judgement  # kept and broken need the whole 95 % interval on one side of the limit; else undecided
    # in the metric's SI unit; of a regression how much worse is allowed, as a multiple of the baseline's:
    # 1.05 times its time
    limit: float | None = None
    # value, ci95: what was found, in the same unit
    value: float | None = None
    ci95: Interval = None
    sentence: str = ""  # what to tell the user
    next: str = ""  # what would decide it, or what to do about it


def conclusion(verdicts: Sequence[Verdict]) -> Judgement:
    """One broken verdict breaks all; nothing asked is undecided."""
    return Judgement.of_all(verdict.word for verdict in verdicts) if verdicts else UNDECIDED


def exit_code(verdicts: Sequence[Verdict]) -> ExitCode:
    """The exit code of a conclusion."""
    codes = {"kept": ExitCode.OK, "broken": ExitCode.NO, "undecided": ExitCode.UNDECIDED}
    return codes[conclusion(verdicts)]


def summary(verdicts: Sequence[Verdict]) -> str:
    """`1 of 3 checks broken`, the worst word first."""
    if not verdicts:
        return "nothing was checked"
    for word in ("broken", "undecided"):
        if number := sum(verdict.word == word for verdict in verdicts):
            return f"{number} of {count(len(verdicts), 'check')} {word}"
    return f"{count(len(verdicts), 'check')} kept"
