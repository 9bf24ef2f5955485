"""A number with what is known of it, and the one place where an interval meets a limit.

A `Quantity` is a value with its 95 % interval, its samples and its unit; they change together or not at all.
A `Judgement` says whether a quantity keeps a limit: kept if the whole interval keeps it, broken if the whole
interval breaks it, else undecided. Without an interval (too few calls) nothing is decided, unless the number
is exact: counted, or computed from what is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import StrEnum

from msgspec import Struct

from laptime.kit.units import estimate, show, show_interval

Interval = tuple[float, float] | None


class Judgement(StrEnum):
    """Whether a limit is kept."""

    KEPT = "kept"
    BROKEN = "broken"
    UNDECIDED = "undecided"

    @classmethod
    def _missing_(cls, value: object) -> Judgement | None:
        """The words of older files."""
        older = {"ok": KEPT, "fail": BROKEN, "unknown": UNDECIDED, "violated": BROKEN, "unclear": UNDECIDED}
        return older.get(value) if isinstance(value, str) else None

    @classmethod
    def of_all(cls, each: Iterable[Judgement]) -> Judgement:
        """Join several limits: one broken breaks all; kept if there are none."""
        return WORST_FIRST[min(map(WORST_FIRST.index, each), default=-1)]


KEPT, BROKEN, UNDECIDED = Judgement
WORST_FIRST = (BROKEN, UNDECIDED, KEPT)


class Quantity(Struct, frozen=True, omit_defaults=True):
    """A number, and what is known of it."""

    # value, low, high: in `unit`; low and high are the ends of the 95 % interval, None if there is none
    value: float
    low: float | None = None
    high: float | None = None
    n: int = 1  # samples behind it
    unit: str = "1"  # an SI base unit, or what is counted: `s`, `1/s`, `B`, `USD`
    exact: bool = False  # counted or computed, not sampled: it needs no interval

    def __post_init__(self) -> None:
        if (self.low is None) is not (self.high is None):
            raise ValueError("an interval has two ends")
        if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} lies outside of its interval [{self.low}, {self.high}]")

    @classmethod
    def of(
        cls, value: float, interval: Interval, n: int = 1, unit: str = "1", *, exact: bool = False
    ) -> Quantity:
        """A measured value with its interval.

        The two may come from different estimators of the same thing (a median, and the interval of a mean
        over batches): the interval is then widened until it reaches the value. A value that is not finite has
        none."""
        if interval is None or not math.isfinite(value) or any(map(math.isnan, interval)):
            return cls(value, n=n, unit=unit, exact=exact)
        return cls(value, min(interval[0], value), max(interval[1], value), n, unit)

    @property
    def interval(self) -> Interval:
        """Both ends; None if there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def text(self) -> str:
        """The value as people read it, `26.3 ms`, with digits no finer than its interval."""
        return show(self.value, self.unit, self.interval)

    @property
    def interval_text(self) -> str:
        """`[25.9, 26.8] ms`; empty if there is no interval."""
        return show_interval(self.interval, self.value, self.unit) if self.interval else ""

    @property
    def estimate(self) -> str:
        """Value and interval with their unit once: `26.3 [25.9, 26.8] ms`."""
        return estimate(self.text, self.interval_text)

    @property
    def precision(self) -> float | None:
        """Half-width of the interval as a share of the value."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)

    def scale(self, factor: float, unit: str | None = None) -> Quantity:
        """This number times an exact one above or below zero."""
        return self._turn(lambda end: end * factor, unit)

    def invert(self, numerator: float = 1.0, unit: str = "1") -> Quantity:
        """An exact number above zero divided by this one, which is not below zero; 1 / 0 is infinite."""
        return self._turn(lambda end: numerator / end if end > 0 else math.inf, unit)

    def divide(self, by: float | Quantity, unit: str | None = None) -> Quantity:
        """This number over an exact one, or over a quantity above zero: from end to end, as both may err.

        Without the interval of both there is none; an exact number needs none."""
        if not isinstance(by, Quantity):
            return self.scale(1 / by, unit)
        if by.exact:
            return self.scale(1 / by.value, unit)
        ratio, n = self.value / by.value, min(self.n, by.n) if not self.exact else by.n
        unit = self.unit if unit is None else unit
        ends = (self.value, self.value) if self.exact else self.interval
        if ends is None or by.low is None or by.high is None:
            return Quantity(ratio, n=n, unit=unit)
        corners = [end / other if other > 0 else math.inf for end in ends for other in (by.low, by.high)]
        return Quantity(ratio, min(corners), max(corners), n, unit)

    def at_most(self, limit: float) -> Quantity:
        """This number, or an exact one that it cannot exceed."""
        return self._turn(lambda end: min(end, limit), None)

    def judge(self, limit: float, *, at_least: bool = False) -> Judgement:
        """Whether it is at most (`at_least`: at least) a limit."""
        low, high = (self.value, self.value) if self.exact else (self.low, self.high)
        if low is None or high is None or math.isnan(low + high):
            return UNDECIDED
        if at_least:
            return KEPT if low >= limit else BROKEN if high < limit else UNDECIDED
        return KEPT if high <= limit else BROKEN if low > limit else UNDECIDED

    def _turn(self, turn: Callable[[float], float], unit: str | None) -> Quantity:
        """The same of value and ends, in order again; a factor that is not a number leaves no interval."""
        ends = sorted(map(turn, self.interval or ()))
        low, high = (None, None) if not ends or any(map(math.isnan, ends)) else ends
        return Quantity(turn(self.value), low, high, self.n, self.unit if unit is None else unit, self.exact)
