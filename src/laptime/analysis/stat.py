"""One number as it is shown, with unit, regime, n and interval."""

from __future__ import annotations

from msgspec import Struct

from laptime.kit.units import show


class Stat(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number as it is shown.

    Attributes:
        tag: stable name.
        title: the words people read.
        value: in `unit`; None when the sample cannot support it, `note` then says what it would need.
        ci95: 95 % interval in `unit`; None for exact counts and where n is too small.
        n: samples behind it.
        regime: isolated, saturated, device, paced; None where it means nothing.
        crowded: what it rests on was disturbed for the most part.
        at_least: the true number is larger: not everything could be counted.
    """

    tag: str
    title: str
    unit: str
    value: float | None
    ci95: tuple[float, float] | None = None
    n: int = 1
    regime: str | None = None
    better: str = "none"
    note: str = ""
    crowded: bool = False
    at_least: bool = False

    @property
    def text(self) -> str:
        """The value as people read it, `26.3 ms`; `at least 1.2 GFLOP` of a lower bound."""
        return f"{'at least ' if self.at_least else ''}{show(self.value, self.unit, self.ci95)}"

    @property
    def precision(self) -> float | None:
        """Half-width of the interval as a share of the value."""
        if self.value in (None, 0) or self.ci95 is None:
            return None
        return (self.ci95[1] - self.ci95[0]) / 2 / abs(self.value)

    def scaled(self, tag: str, title: str, factor: float, *, unit: str) -> Stat:
        """Another number that is this rate times a constant; more of it is better."""
        return Stat(
            tag=tag,
            title=title,
            unit=unit,
            value=(self.value or 0.0) * factor,
            ci95=(self.ci95[0] * factor, self.ci95[1] * factor) if self.ci95 else None,
            n=self.n,
            regime=self.regime,
            better="higher",
        )
