"""Energy of a window of work: which meters there are, why others are not, and what they read.

A meter is any probe file with `open_meters()`; the first meters were NVML, RAPL and Zeus. No reading is None,
never 0. A counter is better than power that was sampled and integrated; each result says which it is."""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct, structs

from laptime.kit import registry
from laptime.kit.clock import SystemClock
from laptime.kit.errors import LaptimeError
from laptime.records.details import Details, EnergyUse
from laptime.records.series import Series, read_metrics

METRICS = GROSS, NET, IDLE, POWER = read_metrics("""
energy/gross J lower energy per item
    Energy of the covered devices while the work ran, divided by the items done.
    Lies when: Other programs used the same device; the window was short against the meter's update
    period; fans, memory, mainboard and power supply are not covered.
energy/net J lower energy per item above idle
    Energy per item minus what the idle device would have used in the same time.
    Lies when: The device was not idle, hot, or in another power state when its idle power was measured.
power/idle W lower idle power
    Power of the covered device with the model loaded and nothing running.
    Lies when: Something else ran, or clocks had not yet fallen from the work before.
power/mean W lower mean power
    Energy of the window divided by its length.
    Lies when: The window was short against the meter's update period.
""")
Method = Literal["counter", "integrated power"]
UPDATES = 20  # a window should last so many updates of the meter: the error of its two ends is then about 5 %
IDLE_SECONDS = 0.5
"""Idle power comes in bursts (timers, other programs): a pause shorter than this may hit none or one."""


class Absence(NamedTuple):
    """Why there is no reading, and the command that would help ("" when none does)."""

    why: str
    next: str = ""


class Meter(Protocol):
    """One source of energy readings."""

    name: str  # stable name, `nvml:0`, `rapl:package-0`
    device: str  # device as frameworks name it: cpu, cuda:0
    covers: str  # what is inside the reading, in words
    method: Method  # how joules are made
    period: float  # seconds between updates of the underlying value

    def start(self) -> None:
        """Begin a window."""

    def stop(self) -> float | None:
        """Joules since `start`; None when the source gave no usable reading."""


class Energy(Struct, frozen=True, kw_only=True):
    """Energy of one window on one meter."""

    meter: str
    device: str
    covers: str
    method: Method
    joules: float | None  # gross energy, None without a reading
    seconds: float  # length of the window
    note: str = ""  # why there is no reading, or what to know about this one

    @property
    def watts(self) -> float | None:
        return None if self.joules is None or self.seconds <= 0 else self.joules / self.seconds


def survey() -> tuple[list[Meter], dict[str, Absence]]:
    """All meters that work here, and for each source that does not, why."""
    working_meters: list[Meter] = []
    absent: dict[str, Absence] = {}
    for name in registry.names("probes"):
        try:
            module = registry.load("probes", name)
        except LaptimeError as error:
            absent[name] = Absence(f"the probe is broken: {error.why}", "laptime doctor")
            continue
        if not hasattr(module, "open_meters"):
            continue
        working, why = module.open_meters()
        working_meters += working
        if why is not None:
            absent[name] = why
    return working_meters, absent


def measure(using: Sequence[Meter], window: Callable[[], Any]) -> list[Energy]:
    """Run `window` once between start and stop of all meters.

    The window must end when the device has finished (synchronise inside), and should last at least
    `shortest_window(using)`; a shorter one is measured and its note says so."""
    for meter in using:
        meter.start()
    started = SystemClock.now()
    try:
        window()
    finally:
        seconds = SystemClock.now() - started
        readings = [meter.stop() for meter in using]
    return [_energy(meter, joules, seconds) for meter, joules in zip(using, readings, strict=True)]


def gross(readings: Sequence[Energy]) -> float | None:
    """Joules of all meters together; None without meters, and if the window was short for one."""
    joules = [reading.joules for reading in readings if reading.joules is not None and not reading.note]
    return sum(joules) if joules and len(joules) == len(readings) else None


def idle_watts(using: Sequence[Meter], seconds: float | None = None) -> dict[str, float]:
    """Mean power of each meter while this process sleeps; a meter without a reading is left out. seconds:
    length of the pause; None takes half a second, or what the slowest meter asks for."""
    length = max(IDLE_SECONDS, shortest_window(using)) if seconds is None else seconds
    readings = measure(using, lambda: time.sleep(length))
    return {energy.meter: energy.watts for energy in readings if energy.watts is not None}


def shortest_window(using: Sequence[Meter]) -> float:
    """Seconds that a window should at least last on these meters."""
    return UPDATES * max((meter.period for meter in using), default=0.0)


def _energy(meter: Meter, joules: float | None, seconds: float) -> Energy:
    note = ""
    if joules is None:
        note = "the meter gave no reading"
    elif seconds < UPDATES * meter.period:
        note = f"window of {seconds:.2f} s is short: the meter updates every {meter.period * 1e3:.0f} ms"
    return Energy(
        meter=meter.name,
        device=meter.device,
        covers=meter.covers,
        method=meter.method,
        joules=joules,
        seconds=seconds,
        note=note,
    )


class CounterMeter:
    """Energy as the difference of two readings of a counter. read: joules since some fixed time, or None when
    it cannot be read now. wraps_at: joules at which the counter starts again from 0; a window must not hold
    two wraps."""

    method: Method = "counter"

    def __init__(
        self,
        name: str,
        read: Callable[[], float | None],
        *,
        device: str,
        covers: str,
        period: float,
        wraps_at: float | None = None,
    ) -> None:
        self.name, self.device, self.covers, self.period = name, device, covers, period
        self._read = read
        self._wraps_at = wraps_at
        self._begin: float | None = None
        self._begun = 0.0

    def start(self) -> None:
        self._begin = self._read()
        self._begun = SystemClock.now()

    def stop(self) -> float | None:
        """Joules since `start`, one wrap put right.

        None when a reading failed, or the counter stood still for many periods: a stuck counter would be
        mistaken for a machine that needs no power."""
        end = self._read()
        if self._begin is None or end is None:
            return None
        used = end - self._begin
        if used < 0:
            if self._wraps_at is None:
                return None
            used += self._wraps_at
        if used == 0 and SystemClock.now() - self._begun > UPDATES * self.period:
            return None
        return used


class PowerMeter:
    """Energy as power sampled by a thread of our own and integrated by the trapezoidal rule. read: watts now,
    or None when it cannot be read."""

    method: Method = "integrated power"

    def __init__(
        self, name: str, read: Callable[[], float | None], *, device: str, covers: str, period: float
    ) -> None:
        self.name, self.device, self.covers, self.period = name, device, covers, period
        self._read = read
        self._samples: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._samples = []
        self._ended.clear()
        self._sample()
        self._thread = threading.Thread(target=self._run, name=f"power of {self.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self.period / 2):
            self._sample()

    def _sample(self) -> None:
        watts = self._read()
        if watts is not None:
            self._samples.append((SystemClock.now(), watts))

    def stop(self) -> float | None:
        """Joules since `start`; None when there were fewer than two readings."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._sample()
        return integrate(self._samples)


def integrate(samples: Sequence[tuple[float, float]]) -> float | None:
    """Joules under (seconds, watts) samples by the trapezoidal rule; None for fewer than two."""
    if len(samples) < 2:
        return None
    return sum(
        (later - earlier) * (before + after) / 2 for (earlier, before), (later, after) in pairwise(samples)
    )


# Energy of calls: idle power first, then a window of calls long enough for the meter.
#
#     idle (nothing runs, model loaded)  |  calls back to back, synchronised at the end  |  joules / items


def energy_of(workload: Any, *, devices: list[str], seconds: float) -> tuple[list[Series], Details]:
    """Series energy/gross, energy/net (J an item), power/mean, power/idle (W); and every meter's reading.
    workload: as in `measure.protocol`. devices: that the model runs on; only their meters enter the series.
    seconds: length of the window at least; a slow meter asks for more."""
    meters, absent = survey()
    covering = [meter for meter in meters if meter.device in devices]
    if not covering:
        why = {name: {"why": reason.why, "next": reason.next} for name, reason in absent.items()}
        return [], Details(energy=EnergyUse(measured=False, why=why))
    idle = idle_watts(covering)
    window = max(seconds, shortest_window(covering))
    calls = 0

    def work() -> None:
        nonlocal calls
        end = SystemClock.now() + window
        while SystemClock.now() < end:
            # A device's queue must not run ahead of the window by more than a few calls.
            for _ in range(4):
                workload.call()
            workload.sync()
            calls += 4

    readings = measure(covering, work)
    items = calls * workload.batch
    read = [one for one in readings if one.joules is not None]
    told = [{**structs.asdict(reading), "idle_watts": idle.get(reading.meter)} for reading in readings]
    use = EnergyUse(measured=bool(read), items=items, meters=told)
    if not read:
        return [], Details(energy=use)
    seconds = max(one.seconds for one in read)
    gross = sum(one.joules or 0.0 for one in read)
    method = " and ".join(sorted({one.method for one in read}))
    note = f"{method}: {', '.join(one.covers for one in read)}"
    values = {GROSS: gross / items, POWER: gross / seconds}
    if all(one.meter in idle for one in read):
        base = sum(idle[one.meter] for one in read)
        values |= {NET: (gross - base * seconds) / items, IDLE: base}
    series = [
        Series(metric=each, samples=[value], probe="energy", note=note) for each, value in values.items()
    ]
    return series, Details(energy=use)
