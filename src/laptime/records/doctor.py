"""The report of `laptime doctor`: its checks, and the numbers behind them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from laptime.records.environment import Device, Environment

SCHEMA = "laptime.doctor/1"

Outcome = Literal["ok", "warn", "none"]


class DoctorCheck(Struct, frozen=True):
    """One check of the machine, shown as a line.

    Attributes:
        name: stable name for machines, `cpu/limit`.
        outcome: ok; warn (it hurts measurements, `next` mends it); none (not there, or not to be read).
        sentence: what was found, with its numbers.
        next: the command that mends it.
    """

    name: str
    outcome: Outcome
    sentence: str
    next: str = ""


def ok(name: str, sentence: str) -> DoctorCheck:
    """Nothing to mend."""
    return DoctorCheck(name, "ok", sentence)


def warn(name: str, sentence: str, next: str) -> DoctorCheck:
    """It hurts measurements, and `next` mends it."""
    return DoctorCheck(name, "warn", sentence, next)


def absent(name: str, sentence: str, next: str = "") -> DoctorCheck:
    """Not there, or not to be read."""
    return DoctorCheck(name, "none", sentence, next)


class Rate(Struct, frozen=True, kw_only=True):
    """A measured peak of a device.

    Attributes:
        kind: gemm (dense matrix product) or copy (memory to memory on the device).
        value: FLOP/s of a product, B/s of a copy (bytes read and written); None when the device cannot.
        ceiling: what the hardware can do on paper, in the same unit; None unknown.
        ceiling_source: datasheet or estimated.
        reason: why there is no value.
    """

    device: str
    kind: Literal["gemm", "copy"]
    dtype: str
    unit: str
    value: float | None = None
    size: int | None = None
    ceiling: float | None = None
    ceiling_source: str = ""
    reason: str = ""


class NoiseFloor(Struct, frozen=True, kw_only=True):
    """A program against itself, interleaved, in fresh processes.

    Attributes:
        smallest: smallest relative difference that a comparison like this one shows 4 times in 5.
        half_width: half of the 95 % interval of the ratio.
        seen: the difference that was measured between the two equals.
        between: standard deviation between processes that was seen, as a share; None with one process.
        word: same or unclear; faster or slower would be a false alarm.
        pairs: alternating pairs of blocks; `processes` fresh ones of each side; `seconds` in all.
    """

    device: str
    workload: str
    smallest: float
    half_width: float
    seen: float
    between: float | None
    word: str
    pairs: int
    processes: int
    seconds: float


class DoctorReport(Struct, frozen=True, kw_only=True):
    """Everything that the doctor measured and checked.

    Attributes:
        lines: in the order of reading, by topic.
        timers: step and cost in seconds, by clock.
        sync: seconds that waiting for an idle device takes, by device.
        meters: energy meters that work: name, device, covers, method, period.
        rates: measured peaks; `rates_from` tells when they were measured, `rates_disturbed` that others used
            the machine meanwhile (then they are too low, and not kept).
        noise: the noise floor, None where it could not be measured.
        steal: share of the machine's CPU time that the hypervisor gave to others meanwhile.
    """

    schema: str = SCHEMA
    laptime: str
    started: str
    seconds: float
    environment: Environment
    devices: list[Device] = []
    lines: list[DoctorCheck] = []
    timers: dict[str, dict[str, float]] = {}
    sync: dict[str, float] = {}
    meters: list[dict[str, Any]] = []
    rates: list[Rate] = []
    rates_from: str = ""
    rates_disturbed: bool = False
    noise: NoiseFloor | None = None
    steal: float | None = None

    @property
    def warnings(self) -> int:
        """How many lines warn."""
        return sum(line.outcome == "warn" for line in self.lines)
