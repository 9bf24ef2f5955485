"""What all usable cores can do at most: FLOP/s on paper, bytes per second as measured here.

    copy     B/s    = 2 x bytes / seconds, one thread a core, best of SAMPLES   (STREAM Copy, McCalpin 1995)
    product  FLOP/s = 2 x n^3 / seconds, best of SAMPLES, where no paper has the cores

The bandwidth of a whole socket is far above what a part of its cores reaches, so the copy is timed; 0.5 s.

Lies when: other programs use the memory meanwhile (the bandwidth comes out too small, shares too large); the
last-level cache has more than BYTES.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from laptime.kit.units import show
from laptime.probes.cpu import cpu
from laptime.probes.peaks import cpu_peak
from laptime.records.roofline import Ceilings

BYTES, SAMPLES, SIZE = 2**27, 5, 2048


def cores(usable: float) -> float:
    """Cores that may work at the same time: of two threads of one core only one counts."""
    return min(usable, float(cpu().physical_cores or usable))


def of_cores(usable: float) -> Ceilings:
    """The ceilings of so many cores of this machine.

    Args:
        usable: CPUs that may be used, by affinity and quota.
    """
    peak = cpu_peak(cpu(), usable=usable)
    bandwidth = _copy(max(1, round(cores(usable))))
    copied = f"{show(bandwidth, 'B/s')} measured, a copy of {show(BYTES, 'B')}"
    if peak is not None:
        return Ceilings(
            device=peak.name, flops=peak.flops, bandwidth=bandwidth, source=f"{peak.note}; {copied}"
        )
    flops = _product()
    multiplied = f"{show(flops, 'FLOP/s')} measured, a product of {SIZE} x {SIZE}"
    return Ceilings(
        device="cores that no table has",
        flops={"float32": flops},
        bandwidth=bandwidth,
        source=f"{multiplied}; {copied}",
    )


def _copy(threads: int) -> float:
    sources = [np.ones(BYTES // threads // 4, np.float32) for _ in range(threads)]
    places = [np.zeros_like(each) for each in sources]
    with ThreadPoolExecutor(threads) as pool:
        seconds = _best(lambda: list(pool.map(np.copyto, places, sources)))
    return 2 * sum(each.nbytes for each in sources) / seconds


def _product() -> float:
    left = np.ones((SIZE, SIZE), np.float32)
    return 2 * SIZE**3 / _best(lambda: left @ left)


def _best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls: what disturbs one only makes it slower."""
    seconds = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)
