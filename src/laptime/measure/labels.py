"""Labels of samples from the evidence beside them. Pure functions: labels of a stored run can be recomputed.

A sample is disturbed when something outside the program says that it lost time to others, whatever its own
duration and however much CPU time it used:

    waited      its threads waited for a CPU for more than 2 % of its time, and not for each other
    stolen      a steal tick fell into it, or its calling thread lacks CPU time although it never slept
    throttled   the container's quota stopped it; others had used a part of that
    clock       the device's clock was clearly below the one it sustains in this case, or known work on a CPU
                took clearly longer than it does at its best

What a program does by itself (sleeps, locks, disks, a serial part, child processes) earns none of them: CPU
time that is low beside the case's usual is no evidence. Rule of thumb behind the numbers: a loss below 2 %
hides inside an interval of 1 to 2 %."""

import math

import numpy as np
from msgspec import structs

from laptime.analysis.evidence import slowdown
from laptime.analysis.quantiles import Floats
from laptime.analysis.steady import Steady, settle
from laptime.records.case import Case
from laptime.records.series import DISTURBED, Label, Regime, Series

WAITED_SHARE = 0.02
OTHERS_SHARE = 0.25  # of the time waited: others that used less CPU than that cannot have caused it
OTHERS_CPUS = 0.06
"""CPUs. Below that a block has no neighbours: a quiet machine's own chores take 0.02 to 0.03."""
OTHERS_TICKS = 0.02  # seconds of others' CPU time in a block that ticks of 10 ms on two CPUs can hide
OWN_QUOTA = 0.8
"""Of the CPU time allowed; a quota is counted by periods of 0.1 s, which begin anywhere in a block."""
FILLING_SHARE = 0.1
"""Paced calls begin with an empty queue: the first tenth of them is not what they settle at."""
CLOCK_DROP = 0.07
"""Against this case's own median clock, not a nominal one: a power cap is the machine, not a disturbance."""
RULER_RISE = 0.1
"""Of known work, above its best: the other hyperthread of a core makes it 50 %, readings differ by 3 %."""


def relabel(case: Case, *, virtual: bool) -> tuple[Case, dict[str, list[Steady]]]:
    """The case with disturbance and warm-up labels on its latency series, and how each process settled.

    Labels that only the worker can know (garbage collection, resumed, recompiled, late) are kept."""
    changed, steady = [], {}
    for series in case.series:
        if series.metric.tag != "latency":
            changed.append(series)
            continue
        label = np.asarray(series.label or [0] * len(series.samples), dtype=int)
        label = label & ~int(DISTURBED | Label.WARM_UP) | disturbances(case, series, virtual=virtual)
        settled, warm = _warm_up(series, label)
        label |= warm
        steady[series.regime or ""] = settled
        changed.append(structs.replace(series, label=[int(bits) for bits in label]))
    return structs.replace(case, series=changed), steady


def disturbances(case: Case, series: Series, *, virtual: bool) -> np.ndarray:
    """Label bits from the evidence beside a latency series, shape (n,)."""
    seconds = np.asarray(series.samples, dtype=float)
    label = np.zeros(len(seconds), dtype=int)

    def column(name: str) -> Floats | None:
        evidence = case.find(f"disturbance/{name}", series.regime)
        if evidence is None or len(evidence.samples) != len(seconds):
            return None
        return np.asarray(evidence.samples, dtype=float)

    waited, throttled = column("waited"), column("throttled")
    if waited is not None:
        waited = waited if throttled is None else np.maximum(waited - throttled, 0.0)  # kernels count both
        calls = np.asarray(series.calls or [1] * len(seconds))  # samples are seconds per call
        label[find_waiting(waited * calls, seconds * calls, column("others"))] |= Label.WAITED
    if throttled is not None and not uses_up_quota(case, series):
        label[throttled > WAITED_SHARE * seconds] |= Label.THROTTLED
    clock = column("clock")
    if clock is not None and len(clock):
        label[clock < (1 - CLOCK_DROP) * np.median(clock)] |= Label.CLOCK
    label[slowdown(case, series) > 1 + RULER_RISE] |= Label.CLOCK
    if virtual:
        for lost in (column("stolen"), column("missing")):
            if lost is not None:
                label[lost > WAITED_SHARE * seconds] |= Label.STOLEN
    return label


def uses_up_quota(case: Case, series: Series) -> bool:
    """Whether the program has all the CPU time that its quota allows: nobody but itself has used it up."""
    usable, cpu = case.details.usable_cpus, case.find("disturbance/cpu", series.regime)
    if not usable or cpu is None or len(cpu.samples) != len(series.samples):
        return False
    calls = np.asarray(series.calls or [1] * len(series.samples))
    return bool(calls @ np.asarray(cpu.samples) >= OWN_QUOTA * usable * (calls @ np.asarray(series.samples)))


def find_waiting(waited: Floats, seconds: Floats, others: Floats | None) -> np.ndarray:
    """Samples that waited for a CPU that others had, shape (n,); a program's threads may wait for each other.
    others: CPUs that others used during the block of each sample; None when unknown.

    Nobody knows who had the CPU during a single sample, but each block knows how long others ran. Threads
    that waited for at least four times as long waited for each other. Chores of a quiet machine add up over a
    block in which the program rarely waits, so the blocks without neighbours are also taken together."""
    late = waited > WAITED_SHARE * seconds
    if others is None:
        return np.asarray(late)
    block = np.concatenate([[0], np.cumsum(np.diff(others) != 0)])
    ran = np.bincount(block, others.clip(min=0) * seconds)
    queued = np.bincount(block, waited)
    quiet = np.asarray([others[block == index][0] < OTHERS_CPUS for index in range(len(ran))])
    own = ran + OTHERS_TICKS <= OTHERS_SHARE * queued
    if ran[quiet].sum() + OTHERS_TICKS <= OTHERS_SHARE * queued[quiet].sum():
        own |= quiet
    return np.asarray(late & ~own[block])


def _warm_up(series: Series, label: np.ndarray) -> tuple[list[Steady], np.ndarray]:
    """Return how each process settled, and WARM_UP bits for what came before; shape (n,)."""
    seconds = np.asarray(series.samples, dtype=float)
    process = np.asarray(series.process or [0] * len(seconds))
    ignore = (label & int(DISTURBED | Label.RESUMED | Label.RECOMPILED)) != 0
    bits = np.zeros(len(seconds), dtype=int)
    settled = []
    for p in np.unique(process):
        positions = np.nonzero(process == p)[0]
        if series.regime == Regime.PACED:  # its queue fills; later levels are the queue's own
            filling = positions[: math.ceil(FILLING_SHARE * len(positions))]
            bits[filling] = int(Label.WARM_UP)
            settled.append(Steady(len(filling), "flat", 0.0))
            continue
        steady = settle(seconds[positions], ignore[positions])
        # A slow-down (heat) makes the early samples the odd ones out, just as a warm-up does.
        bits[positions[: steady.start]] = int(Label.WARM_UP)
        settled.append(steady)
    return settled, bits
