"""Does the queue grow through the window? Then every latency is as long as the window.

Arrivals less departures, slice by slice: their mean is above zero where more comes than goes. At first that
is so of every server, while the first answers are under way; there latency does not grow. Both have to.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from laptime.analysis.quantiles import Floats
from laptime.analysis.student_t import t_quantile

SLICES = 20
_SURE = 0.99


class Balance(NamedTuple):
    """What came and what went.

    Attributes:
        grows: the queue surely grew through the window.
        growth: requests per second that came more than went.
        waiting: requests under way when the last one was due.
    """

    grows: bool
    growth: float
    waiting: int


def balance(due: Floats, end: Floats) -> Balance:
    """Of requests by when each was due and ended, in order of due, in seconds."""
    last = float(due[-1]) if len(due) else 0.0
    waiting = int((end > last).sum())
    slices = min(SLICES, len(due) // 3)
    if slices < 5 or last <= due[0]:
        return Balance(False, 0.0, waiting)
    edges = np.linspace(float(due[0]), last, slices + 1)
    net = (np.histogram(due, edges)[0] - np.histogram(end, edges)[0]).astype(float)
    growth = float(net.sum()) / (last - float(due[0]))
    return Balance(_is_above_zero(net) and _rises(end - due), growth, waiting)


def _is_above_zero(net: Floats) -> bool:
    error = float(net.std(ddof=1)) / math.sqrt(len(net))
    return float(net.mean()) > t_quantile(_SURE, len(net) - 1) * error


def _rises(latency: Floats) -> bool:
    """Whether latencies go up with time: a line through the means of ten groups says so."""
    groups = [float(part.mean()) for part in np.array_split(latency, min(10, len(latency) // 2))]
    x = np.arange(len(groups)) - (len(groups) - 1) / 2
    y = np.asarray(groups) - float(np.mean(groups))
    slope = float(x @ y) / float(x @ x)
    left = y - slope * x
    error = math.sqrt(float(left @ left) / max(1, len(groups) - 2) / float(x @ x))
    return slope > t_quantile(_SURE, max(1, len(groups) - 2)) * error and groups[-1] > 1.1 * groups[0]
