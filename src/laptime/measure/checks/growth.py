"""Does memory grow with every call? Then a peak is one after so many calls, and says nothing of the next."""

from typing import NamedTuple

import numpy as np

from laptime.kit.units import show
from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.probes.host_memory import OVER_TIME

LEAST = 16 * 2**20  # Bytes. Allocators and compilers keep a few MiB in the first calls of any program.
READINGS = 3


class Growth(NamedTuple):
    """Bytes that every call keeps, and the calls over which that was seen."""

    per_call: float
    calls: int


def growth(case: Case) -> Growth | None:
    """Return the memory that its first process kept of each call; None if it settles, or is hardly known."""
    memory = case.find(OVER_TIME.tag)
    if memory is None or len(memory.at) != len(memory.samples):
        return None
    first = [number for number, p in enumerate(memory.process or [0] * len(memory.at)) if p == 0][1:]
    at, held = (np.asarray(column, dtype=float)[first] for column in (memory.at, memory.samples))
    if len(first) < READINGS:
        return None
    # Calls that were made before each of these moments, shape (n,).
    calls = np.zeros(len(at))
    for series in case.series:
        if series.metric.tag == "latency" and len(series.at) == len(series.samples):
            weights = np.asarray(series.calls or [1] * len(series.at))
            order = np.argsort(series.at)
            done = np.concatenate([[0], np.cumsum(weights[order])])
            calls += done[np.searchsorted(np.asarray(series.at)[order], at)]
    middle = len(first) // 2
    total, late = held[-1] - held[0], held[-1] - held[middle]
    made, made_late = calls[-1] - calls[0], calls[-1] - calls[middle]
    is_steady = np.mean(np.diff(held) > 0) >= 0.75
    if total < LEAST or made_late <= 0 or not is_steady or late / made_late < 0.5 * total / made:
        return None
    return Growth(total / made, int(calls[-1]))


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note the growth of a call, and after how many calls memory was measured."""
    found = growth(case)
    if found is None:
        return None
    return Check(
        "growth",
        "note",
        f"every call keeps {show(found.per_call, 'B')} of memory and never frees it; its peak is that of "
        f"{found.calls:,} calls",
        "look for a list, a cache or a graph that each call adds to",
    )
