"""Checks answer one question about one case: can this number be trusted?"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Outcome = Literal["ok", "note", "warn", "fail"]
Trust = Literal["trusted", "noisy", "invalid"]


class Check(Struct, frozen=True, omit_defaults=True):
    """The answer of one check.

    Attributes:
        name: file name of the check.
        outcome: ok; note (worth saying, trust unharmed); warn (noisy); fail (invalid).
        sentence: what was found, with its numbers; written once, shown everywhere.
        next: the command or change that would mend it.
    """

    name: str
    outcome: Outcome
    sentence: str
    next: str = ""


def trust(checks: list[Check]) -> Trust:
    """A failed check makes a case invalid, a warning makes it noisy."""
    outcomes = {check.outcome for check in checks}
    if "fail" in outcomes:
        return "invalid"
    return "noisy" if "warn" in outcomes else "trusted"
