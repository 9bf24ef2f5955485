"""Is a server slots with one queue? Then its levels tell their number and what fills them, and a replay at
any rate tells what requests would wait there.

When a request came into a slot follows from when those before it came and ended, for any number of slots.
With the right one the time in a slot does not depend on how many others are there. A server that shares one
CPU among its requests, or batches them, has no such number, and nothing is replayed."""

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from laptime.analysis.quantiles import Floats
from laptime.analysis.student_t import t_quantile

_SLOTS = (*range(1, 17), 20, 24, 32, 48, 64)
_ALIKE, _FEW, _OUT_OF_TURN = 1.9, 20, 0.002
"""Of a Kolmogorov-Smirnov test, beyond chance in one of 700; requests on each side of it; share that may have
ended before it was begun."""
_TIMES, _LENGTH, _BLOCK, _HALVINGS = 6, 20_000, 10, 7
"""A replay: so many of so many requests, services in blocks as they came; its rate by halving."""


class Queue(NamedTuple):
    """A server as levels show it: seconds that requests were in a slot, in order of arrival, and gaps between
    arrivals, over the mean of their level."""

    slots: int
    services: Floats
    gaps: Floats

    def breaks(self, limit: float, q: float) -> tuple[float, float, float]:
        """The rate at which the q-quantile of the latency reaches the limit, and the ends of 90 %: by
        replays, each of services that are drawn anew."""
        rng, found = np.random.default_rng(0), np.zeros(_TIMES)
        for at in range(_TIMES):
            drawn = rng.integers(0, len(self.services), _LENGTH // _BLOCK)[:, None] + np.arange(_BLOCK)
            services = self.services[drawn.ravel() % len(self.services)]
            gaps, high = rng.choice(self.gaps, _LENGTH), self.slots / float(services.mean())
            for _ in range(_HALVINGS):
                due = (gaps / ((found[at] + high) / 2)).cumsum()
                over = _began(due, services, self.slots, is_end=False) + services - due > limit
                if over.mean() > 1 - q:
                    high = (found[at] + high) / 2
                else:
                    found[at] = (found[at] + high) / 2
        middle, half = float(found.mean()), t_quantile(0.95, _TIMES - 1) * float(found.std(ddof=1))
        return middle, middle - half, middle + half


def _began(due: Floats, times: Floats, slots: int, *, is_end: bool) -> Floats:
    """When requests came into a slot, first come, first served. times: of service, or of their end."""
    free, began = [-math.inf] * slots, []
    for at, time in zip(due.tolist(), times.tolist(), strict=True):
        began.append(max(at, free[0]))
        heapq.heapreplace(free, time if is_end else began[-1] + time)
    return np.array(began)


def queue_of(levels: Sequence[tuple[Floats, Floats]]) -> Queue | None:
    """Slots with which requests are served for as long beside many others as beside few; None if no number
    explains the levels: the server works otherwise, nobody waited, or some failed. levels: when requests
    came, what they took."""
    best: tuple[float, Queue] | None = None
    levels = [level for level in levels if len(level[0]) > 2]
    if not levels or not all(np.isfinite(took).all() for _, took in levels):
        return None
    gaps = np.concatenate([np.diff(due) / np.diff(due).mean() for due, _ in levels])
    beside = [np.arange(len(due)) - np.searchsorted(np.sort(due + took), due) for due, took in levels]
    all_due, all_took, others = map(np.concatenate, (*zip(*levels, strict=True), beside))
    is_busy = others > np.median(others)
    for slots in _SLOTS:
        began = np.concatenate([_began(due, due + took, slots, is_end=True) for due, took in levels])
        services = all_due + all_took - began
        if (services <= 0).mean() > _OUT_OF_TURN or min((began > all_due).sum(), (~is_busy).sum()) < _FEW:
            continue
        # The statistic of Kolmogorov and Smirnov: 1.36 is passed once in 20 by samples of one law.
        a, b = services[is_busy], services[~is_busy]
        at = np.concatenate([a, b])
        one, other = (np.searchsorted(np.sort(each), at, side="right") / len(each) for each in (a, b))
        apart = float(np.abs(one - other).max()) / math.sqrt(1 / len(a) + 1 / len(b))
        if apart < (best[0] if best else _ALIKE):
            best = apart, Queue(slots, services, gaps)
    return best and best[1]
