"""Labels of samples from the evidence beside them. Pure functions: labels of a stored run can be recomputed.

A sample is disturbed when its evidence says that it lost time to others, whatever its own duration:

    waited      its threads waited for a CPU for more than 2 % of its time, and not for each other
    stolen      a steal tick fell into it; or, on a virtual machine, CPU time is missing: the process used
                clearly less CPU per second than it does in this case when nobody disturbs it
    throttled   the container's quota stopped it
    clock       the device's clock was clearly below the one it sustains in this case

Rule of thumb behind the numbers: a loss below 2 % hides inside an interval of 1 to 2 %.
"""

from __future__ import annotations

import numpy as np
from msgspec import structs

from laptime.analysis.quantiles import Floats
from laptime.analysis.steady import Steady, settle
from laptime.records.case import Case
from laptime.records.series import DISTURBED, Label, Series

WAITED_SHARE = 0.02
MISSING_SHARE = 0.06
OTHERS_SHARE = 0.25
"""Of the time waited: others that used less CPU than this share cannot have caused the waiting."""
OTHERS_CPUS = 0.06
"""CPUs. Below that a block has no neighbours: a quiet machine's own chores take 0.02 to 0.03."""

CLOCK_DROP = 0.07
"""Against this case's own median clock, not a nominal one: a power cap is the machine, not a disturbance."""


def relabel(case: Case, *, virtual: bool) -> tuple[Case, dict[str, list[Steady]]]:
    """The case with disturbance and warm-up labels on its latency series, and how each process settled.

    Labels that only the worker can know (garbage collection, resumed, recompiled, late) are kept.
    """
    changed, steady = [], {}
    for series in case.series:
        if series.metric.tag != "latency":
            changed.append(series)
            continue
        label = _own_labels(series) | disturbances(case, series, virtual=virtual)
        settled, warm = _warm_up(series, label)
        label |= warm
        steady[series.regime or ""] = settled
        changed.append(structs.replace(series, label=[int(bits) for bits in label]))
    return structs.replace(case, series=changed), steady


def _own_labels(series: Series) -> np.ndarray:
    made_here = int(DISTURBED | Label.WARM_UP)
    label = np.asarray(series.label or [0] * len(series.samples), dtype=int)
    return label & ~made_here


def disturbances(case: Case, series: Series, *, virtual: bool) -> np.ndarray:
    """Label bits from the evidence beside a latency series, shape (n,)."""
    seconds = np.asarray(series.samples, dtype=float)
    label = np.zeros(len(seconds), dtype=int)

    def column(name: str) -> Floats | None:
        evidence = case.find(f"disturbance/{name}", series.regime)
        if evidence is None or len(evidence.samples) != len(seconds):
            return None
        return np.asarray(evidence.samples, dtype=float)

    waited, stolen, throttled = column("waited"), column("stolen"), column("throttled")
    if waited is not None:
        label[_waited_for_others(waited, seconds, column("others"))] |= Label.WAITED
    if throttled is not None:
        label[throttled > WAITED_SHARE * seconds] |= Label.THROTTLED
    clock = column("clock")
    if clock is not None and len(clock):
        label[clock < (1 - CLOCK_DROP) * np.median(clock)] |= Label.CLOCK
    if virtual:
        if stolen is not None:
            label[stolen > WAITED_SHARE * seconds] |= Label.STOLEN
        cpu = column("cpu")
        if cpu is not None:
            label[_missing(cpu, seconds, undisturbed=label == 0)] |= Label.STOLEN
    return label


def _waited_for_others(waited: Floats, seconds: Floats, others: Floats | None) -> np.ndarray:
    """Samples that waited for a CPU that others had, shape (n,); a program's threads may wait for each other.

    Nobody knows who had the CPU during a single sample. So the program is cleared as a whole: only if most of
    its samples waited longer than others ran at all. Blocks in which others ran a lot are still labelled.

    Args:
        others: CPUs that others used during the block of each sample; None when unknown.
    """
    late = waited > WAITED_SHARE * seconds
    if others is None or np.mean(late) <= 0.5:
        return np.asarray(late)
    usual = float(np.average(others, weights=np.maximum(seconds, 1e-12)))
    is_own = usual < min(OTHERS_CPUS, OTHERS_SHARE * float(waited.sum() / seconds.sum()))
    return np.asarray(late & (others > OTHERS_CPUS)) if is_own else np.asarray(late)


def _missing(cpu: Floats, seconds: Floats, *, undisturbed: np.ndarray) -> np.ndarray:
    """Samples whose CPU time per second is clearly below what this case uses when left alone.

    The usual CPU use is the upper quartile of the samples that nothing else disturbed: right as long as a
    quarter of them is undisturbed. Programs that leave the CPU idle by themselves (below 0.9 CPUs, or with
    a use that varies widely) cannot be judged this way, and are not.
    """
    use = cpu / np.maximum(seconds, 1e-12)
    quiet = use[undisturbed]
    if len(quiet) < 8:
        return np.zeros(len(use), dtype=bool)
    usual = float(np.quantile(quiet, 0.75))
    upper = quiet[quiet >= np.median(quiet)]
    noise = 1.4826 * float(np.median(np.abs(upper - np.median(upper))))
    if usual < 0.9 or noise > 0.05 * usual:
        return np.zeros(len(use), dtype=bool)
    return np.asarray(use < usual - max(MISSING_SHARE * usual, 4 * noise))


def _warm_up(series: Series, label: np.ndarray) -> tuple[list[Steady], np.ndarray]:
    """How each process settled, and WARM_UP bits for what came before; shape (n,)."""
    seconds = np.asarray(series.samples, dtype=float)
    process = np.asarray(series.process or [0] * len(seconds))
    ignore = (label & int(DISTURBED | Label.RESUMED | Label.RECOMPILED)) != 0
    bits = np.zeros(len(seconds), dtype=int)
    settled = []
    for p in np.unique(process):
        positions = np.nonzero(process == p)[0]
        steady = settle(seconds[positions], ignore[positions])
        # A slow-down (heat) makes the early samples the odd ones out, just as a warm-up does.
        bits[positions[: steady.start]] = int(Label.WARM_UP)
        settled.append(steady)
    return settled, bits
