"""Instruments, one file each. Two functions of a file are called wherever it has them:

    watch(device: str, clock: Clock) -> Watch | None         what happens beside every block of timed calls
    open_meters() -> tuple[list[Meter], Absence | None]      energy of a window of work (`probes/energy.py`)

`watch` is called once in every worker, after the first call; None says that nothing can be read here. Its
watch is told when a block of calls begins and when it has ended, outside of all timed windows. Only
`scheduler` is read between the samples of a block, where microseconds count: `measure/loop.py` knows it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from laptime.kit import registry
from laptime.kit.clock import Clock
from laptime.records.series import Metric, Series


class TimedBlock(NamedTuple):
    """The samples of one block, in the order of measuring."""

    regime: str  # how the calls followed each other
    start: Sequence[float]  # seconds on the clock when each sample began, shape (n,)
    seconds: Sequence[float]  # duration of each sample, per call, shape (n,)
    label: list[int]  # `Label` bits of each sample, shape (n,); a watch adds those whose cause it has seen

    def beside(self, metric: Metric, value: float) -> Series:
        """Return a value of the whole block as a column beside its samples."""
        return Series(metric=metric, regime=self.regime, samples=[value] * len(self.seconds))


class Watch(Protocol):
    """Watches one thing beside all blocks of a worker."""

    def begin(self) -> None:
        """A block begins now."""

    def end(self, block: TimedBlock) -> list[Series]:
        """The block has ended: series to store, [] when nothing could be read (never a 0 instead).

        A column has as many samples as the block (`TimedBlock.beside`); a series without a regime may have
        fewer, with the time of each in `at`. A block whose calls failed is empty, and its series are dropped.
        """


class EndWatch:
    """A watch of what can be read when a block has ended. end: reads it."""

    def __init__(self, end: Callable[[TimedBlock], list[Series]]) -> None:
        self.end = end

    def begin(self) -> None:
        """Nothing to do."""


def watches(device: str, clock: Clock) -> list[Watch]:
    """The watches of all probes, ours and those of other packages, for one device ("cpu", "cuda:0").
    Raises LaptimeError: a probe cannot be imported; measuring without it would hide that."""
    probes = (registry.load("probes", name) for name in registry.names("probes"))
    opened = [probe.watch(device, clock) for probe in probes if hasattr(probe, "watch")]
    return [watch for watch in opened if watch is not None]
