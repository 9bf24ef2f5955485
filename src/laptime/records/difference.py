"""Two profiles side by side."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Change = Literal["added", "gone", "slower", "faster", "same"]


class ChangedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something in both or in one of them, per step, so that runs of different lengths can be compared.

    Attributes:
        name: operator, kernel or part of the breakdown.
        change: slower and faster mean at least 2 % and 1 us per step.
        before_ns, after_ns: per step. calls are per step, too.
        explains: its share of the whole difference of the step; can be negative.
    """

    name: str
    change: Change
    before_ns: int
    after_ns: int
    before_calls: float = 0.0
    after_calls: float = 0.0
    explains: float | None = None

    @property
    def delta_ns(self) -> int:
        """After - before."""
        return self.after_ns - self.before_ns


class Difference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changed from `before` (the profile given by --against) to this one; rows by what explains most.

    Attributes:
        before: name of the other file(s).
        before_step_ns, after_step_ns: mean steps.
        speedup: before / after. ci95: its 95 % interval over the steps of both; None below two on a side.
        breakdown: rows named like the parts of Breakdown.
        operators: by device self time, or host self time without an accelerator.
        idle: rows named like idle causes.
        sentence: the whole in words.
        warnings: other device, other number of ranks, ...
    """

    before: str
    before_step_ns: int
    after_step_ns: int
    speedup: float
    sentence: str
    ci95: tuple[float, float] | None = None
    breakdown: list[ChangedRow] = []
    operators: list[ChangedRow] = []
    kernels: list[ChangedRow] = []
    idle: list[ChangedRow] = []
    warnings: list[str] = []
