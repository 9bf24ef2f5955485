"""One number as it is shown: what it is called, what is known of it, and why if nothing is."""

from msgspec import Struct, structs

from laptime.kit.units import show
from laptime.records.quantity import Interval, Quantity


class Stat(Struct, frozen=True, omit_defaults=True):
    """One number as it is shown."""

    tag: str  # stable name
    title: str  # the words people read
    unit: str  # of the quantity, also if there is none
    # the number with its interval; None if the sample cannot support it, `note` then says what it would need
    quantity: Quantity | None = None
    n: int = 1  # samples behind it, or that are not enough for it
    regime: str | None = None  # isolated, saturated, device, paced; None if it means nothing
    better: str = "none"
    note: str = ""
    crowded: bool = False  # what it rests on was disturbed for the most part
    at_least: bool = False  # the true number is larger: not everything could be counted

    @property
    def value(self) -> float | None:
        """The number alone, in `unit`."""
        return self.quantity.value if self.quantity else None

    @property
    def ci95(self) -> Interval:
        """Its 95 % interval; None for exact counts and where n is too small."""
        return self.quantity.interval if self.quantity else None

    @property
    def text(self) -> str:
        """The value as people read it, `26.3 ms`; `at least 1.2 GFLOP` of a lower bound."""
        return f"{'at least ' if self.at_least else ''}{show(self.value, self.unit, self.ci95)}"

    @property
    def interval_text(self) -> str:
        """`[25.9, 26.8] ms`; empty if there is no interval."""
        return self.quantity.interval_text if self.quantity else ""

    @property
    def precision(self) -> float | None:
        """Half-width of the interval as a share of the value."""
        return self.quantity.precision if self.quantity else None

    def without(self, note: str) -> "Stat":
        """The same, untold, and why."""
        return structs.replace(self, quantity=None, note=note)

    def scale(self, tag: str, title: str, factor: float, *, unit: str) -> "Stat":
        """Another number that is this rate times a constant; more of it is better."""
        quantity = self.quantity.scale(factor, unit) if self.quantity else None
        return Stat(tag, title, unit, quantity, self.n, self.regime, "higher")
