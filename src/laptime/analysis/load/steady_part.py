"""From which request on is the answer what it settles at? Found, not assumed.

A queue begins empty, a server cold. MSER-5 (White, An Effective Truncation Heuristic for Bias Reduction
in Simulation Output, Simulation 69, 1997): leave out as many as make the mean of the rest known best.
"""

from __future__ import annotations

import numpy as np

from laptime.analysis.quantiles import Floats

BATCH = 5
MOST = 0.5
"""Share of the requests that may be left out."""


def steady_from(values: Floats) -> int:
    """Index of the first request that counts; 0 where there are few."""
    count = len(values) // BATCH
    if count < 8:
        return 0
    means = values[: count * BATCH].reshape(count, BATCH).mean(axis=1)[::-1]
    number = np.arange(1, count + 1)
    mean = np.cumsum(means) / number
    spread = np.maximum(np.cumsum(means**2) / number - mean**2, 0.0)
    error = (spread / number)[::-1]  # of the mean, where so many batches are left out
    return int(np.argmin(error[: int(count * MOST) + 1])) * BATCH
