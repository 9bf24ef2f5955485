"""Senders that know what they can do: they measure themselves on loopback before they send to a server.

As many as a rate needs are started, up to the CPUs of this machine, unless the request says how many.
"""

from __future__ import annotations

import math
import os

import numpy as np

from laptime.launch.sender_process import Senders
from laptime.loadgen.checks import BUSIEST
from laptime.loadgen.messages import SelfTest
from laptime.records.load import Alone

SECONDS = 0.3
"""Of one self-test, at a rate that senders can keep."""
FEWEST, MOST = 100, 2000
"""Requests of one: fewer have no p99, and more take too long where senders cannot keep the rate."""
CHUNKS = 10_000
"""The most chunks of one."""
LEAST_CHUNKS = 8


class Generator:
    """Senders for one endpoint.

    Args:
        count: as many as the user wants; None: as many as are needed.
        chunks: of an answer's stream; 0: answers come in one piece.
    """

    def __init__(self, senders: Senders, count: int | None, chunks: int) -> None:
        self._senders, self._count, self._chunks = senders, count, chunks
        self.alone: Alone | None = None

    def prepare(self, rate: float) -> None:
        """Measure the senders where that was not done, and start as many as a rate needs.

        Raises:
            CommandFailed: one of them failed.
        """
        if self.alone is None:
            self.alone = self._measured(rate)
        each = self.alone.capacity / self._senders.count
        needed = min(cpus(), math.ceil(rate / each)) if each > 0 else 1
        if self._count is None and needed > self._senders.count:
            self._senders.grow(needed)
            self.alone = self._measured(rate)

    def _measured(self, rate: float) -> Alone:
        test = order(rate, self._chunks)
        made = self._senders.self_test(test)
        late = np.concatenate([np.asarray(each.late, dtype=float) for each in made])
        sent = [len(each.late) for each in made]
        # An answer of all its chunks costs more than one of those tried here, at most as many times more.
        longer = self._chunks / test.chunks if test.chunks else 1.0
        capacity = [
            count / (each.cpu * longer) * BUSIEST for each, count in zip(made, sent, strict=True) if count
        ]
        return Alone(
            rate=test.rate,
            late=round(float(np.quantile(late, 0.99)), 6) if len(late) else math.inf,
            cpu=round(max(each.cpu / each.wall for each in made), 4),
            capacity=round(sum(capacity), 1),
        )


def order(rate: float, chunks: int) -> SelfTest:
    """What is sent for so many requests per second: at least so many that their p99 is known.

    Where that is more requests than asked for, their streams are shorter: chunks come as fast as asked.
    """
    tried = max(rate, FEWEST / SECONDS)
    requests = min(MOST, round(tried * SECONDS))
    per_second = max(LEAST_CHUNKS, round(rate * chunks / tried))
    return SelfTest(tried, requests, min(chunks, per_second, max(1, CHUNKS // requests)))


def cpus() -> int:
    """CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
