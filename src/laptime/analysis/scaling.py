"""How throughput grows with threads and with instances: efficiency, and where hyperthreads stop paying.

    efficiency    rate / (threads x instances x rate of one thread)
    siblings      more threads at work than physical cores: some share one

Efficiency is told against one thread if that was measured, else against the fewest threads, per thread."""

from collections.abc import Sequence
from typing import NamedTuple

from laptime.analysis.stat import Stat
from laptime.analysis.summary import throughput_regimes, throughputs
from laptime.records.case import Case
from laptime.records.plan import TODAY, Constants
from laptime.records.quantity import Quantity


class Scaled(NamedTuple):
    """One number of threads and instances."""

    case: str
    threads: int
    instances: int
    workers: int  # threads of all instances
    rate: Quantity  # units per second of all instances
    efficiency: float
    cores: float | None  # physical ones kept busy; None if nobody knows how many there are
    siblings: bool | None  # some of the threads share a core


def scaling(cases: Sequence[Case], constants: Constants = TODAY, cores: float | None = None) -> list[Scaled]:
    """Rows by workers, for cases that differ in threads or instances alone; none if fewer than two do.
    cores: physical cores of the machine; None unknown."""
    usable = [case for case in cases if case.status == "ok" and case.trust != "invalid" and _threads(case)]
    group = [case for case in usable if _others(case) == _others(usable[0])]
    if len({(_threads(case), case.instances) for case in group}) < 2:
        return []
    every = [throughputs(case, constants) for case in group]
    regimes = throughput_regimes(every, on_cpu=True, constants=constants)
    rates = [
        (case, rates[regime])
        for case, rates, regime in zip(group, every, regimes, strict=True)
        if regime and rates[regime].value
    ]
    if not rates:
        return []
    least, slowest = min(rates, key=lambda pair: _workers(pair[0]))
    base = (slowest.value or 0.0) / _workers(least)
    rows = [_scale(case, stat, base, cores) for case, stat in rates]
    return sorted(rows, key=lambda row: (row.workers, row.instances))


def _scale(case: Case, stat: Stat, base: float, cores: float | None) -> Scaled:
    workers, rate = _workers(case), stat.quantity or Quantity(0.0, unit=stat.unit)
    return Scaled(
        case=case.key,
        threads=_threads(case),
        instances=case.instances,
        workers=workers,
        rate=rate,
        efficiency=rate.value / (workers * base) if base else 0.0,
        cores=None if cores is None else min(float(workers), cores),
        siblings=None if cores is None else workers > cores,
    )


def siblings_pay(rows: Sequence[Scaled]) -> Scaled | None:
    """The fastest row with shared cores, if it is certainly faster than the fastest without; else None."""
    apart, shared = ([row for row in rows if row.siblings is value] for value in (False, True))
    if not apart or not shared:
        return None
    best, above = (max(group, key=lambda row: row.rate.value) for group in (apart, shared))
    if best.rate.high is None or above.rate.low is None:
        return None
    return above if above.rate.low > best.rate.high else None


def _threads(case: Case) -> int:
    number = case.axes.get("threads", 0)
    return number if isinstance(number, int) else 0


def _workers(case: Case) -> int:
    return _threads(case) * case.instances


def _others(case: Case) -> tuple[object, ...]:
    return (
        case.target,
        *((name, value) for name, value in case.axes.items() if name not in ("threads", "instances")),
    )
