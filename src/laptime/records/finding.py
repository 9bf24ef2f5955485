"""Something worth telling the user, with its evidence and the next step."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

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
        gain: upper bound on what the change can save, in seconds per step; None where it cannot be told.
        change: what to change, in words or one line of code.
        optimization: the `laptime tune` optimization that makes this change, "" when there is none.
        stack: where in the program, innermost frame first.
        rows: rows of the profile's tables that it rests on: `operators/aten::item`, `kernels/...`.
    """

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
