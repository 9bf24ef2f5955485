"""Whether a number of a run is what was asked of it: kept, broken, or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from laptime.kit.errors import ExitCode
from laptime.kit.text import count
from laptime.records.quantity import UNDECIDED, Interval, Judgement


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question that `laptime check` or a suite has answered.

    Attributes:
        kind: max, min (a budget), regression (against a baseline), measured (there had to be a number).
        case: key of the case.
        metric: tag of the statistic.
        word: kept and broken need the whole 95 % interval on one side of the limit; else undecided.
        limit: in the metric's SI unit; of a regression how much worse is allowed, as a multiple of the
            baseline's: 1.05 times its time.
        value, ci95: what was found, in the same unit.
        sentence: what to tell the user.
        next: what would decide it, or what to do about it.
    """

    kind: Literal["max", "min", "regression", "measured"]
    case: str
    metric: str
    word: Judgement
    limit: float | None = None
    value: float | None = None
    ci95: Interval = None
    sentence: str = ""
    next: str = ""


def conclusion(verdicts: Sequence[Verdict]) -> Judgement:
    """One broken verdict breaks all; nothing asked is undecided."""
    return Judgement.of_all(verdict.word for verdict in verdicts) if verdicts else UNDECIDED


def exit_code(verdicts: Sequence[Verdict]) -> ExitCode:
    """What the conclusion says to a script."""
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
