"""Constants that reports compute with. A run keeps those of its day, so its report stays the same."""

from __future__ import annotations

from msgspec import Struct


class Constants(Struct, frozen=True, kw_only=True):  # writes its defaults, too: they may change
    """The defaults are today's; files of versions that did not store them are read with these.

    Attributes:
        few_samples: so many undisturbed samples tell the level better than a majority of disturbed ones.
        sound_throughput: half-width, as a share, up to which a CPU's saturated throughput is taken as it is.
        control_rounds: rounds of a tuning session's control from which a difference in it widens the margin.
        widest_margin: what a control can widen the margin to at most, as a share of a step.
    """

    few_samples: int = 3
    sound_throughput: float = 0.05
    control_rounds: int = 6
    widest_margin: float = 0.1


TODAY = Constants()
