"""Something worth telling the user, with its evidence and the next step."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One observation.

    Attributes:
        kind: stable name for machines (`batch/knee`, `batch/largest`).
        severity: info, advice or problem.
        sentence: what was found, with its numbers.
        evidence: the numbers themselves.
        next: what to type or change.
        cases: keys of the cases it speaks of.
    """

    kind: str
    severity: Literal["info", "advice", "problem"] = "info"
    sentence: str
    evidence: dict[str, Any] = {}
    next: str = ""
    cases: list[str] = []
