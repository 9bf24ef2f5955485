"""Energy of a case: idle power first, then a window of calls long enough for the meter; gross and net.

    idle (nothing runs, model loaded)  |  calls back to back, synchronised at the end  |  joules / items

Where no meter can be read, there is a reason instead of a number, never 0.
"""

from __future__ import annotations

from msgspec import structs

from laptime.kit.clock import SystemClock
from laptime.measure.protocol import Workload
from laptime.probes import energy
from laptime.records.details import Details, EnergyUse
from laptime.records.series import Series


def energy_of(workload: Workload, *, devices: list[str], seconds: float) -> tuple[list[Series], Details]:
    """Series energy/gross, energy/net (J an item), power/mean, power/idle (W); and every meter's reading.

    Args:
        devices: names of the devices the model runs on; only meters of these enter the series.
        seconds: length of the window at least; a slow meter asks for more.
    """
    meters, absent = energy.survey()
    covering = [meter for meter in meters if meter.device in devices]
    if not covering:
        why = {name: {"why": reason.why, "next": reason.next} for name, reason in absent.items()}
        return [], Details(energy=EnergyUse(measured=False, why=why))
    idle = energy.idle_watts(covering)
    window = max(seconds, energy.shortest_window(covering))
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

    readings = energy.measure(covering, work)
    items = calls * workload.batch
    read = [one for one in readings if one.joules is not None]
    told = [{**structs.asdict(reading), "idle_watts": idle.get(reading.meter)} for reading in readings]
    use = EnergyUse(measured=bool(read), items=items, meters=told)
    return _series(read, idle, items), Details(energy=use)


def _series(read: list[energy.Energy], idle: dict[str, float], items: int) -> list[Series]:
    if not read:
        return []
    seconds = max(one.seconds for one in read)
    gross = sum(one.joules or 0.0 for one in read)
    method = " and ".join(sorted({one.method for one in read}))
    note = f"{method}: {', '.join(one.covers for one in read)}"
    values = {energy.GROSS: gross / items, energy.POWER: gross / seconds}
    if all(one.meter in idle for one in read):
        base = sum(idle[one.meter] for one in read)
        values |= {energy.NET: (gross - base * seconds) / items, energy.IDLE: base}
    return [
        Series(metric=metric, samples=[value], probe="energy", note=note) for metric, value in values.items()
    ]
