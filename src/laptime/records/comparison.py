"""Two cases against each other, in one of four words."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Word = Literal["faster", "slower", "same", "unclear"]


class Comparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can be said about candidate against baseline.

    Attributes:
        baseline, candidate: case keys.
        metric: tag and regime compared, "latency/isolated" or "throughput/saturated".
        speedup: baseline time over candidate time; above 1 the candidate is faster.
        ci95: 95 % interval of the speedup.
        word: faster, slower, same (the interval lies inside the margin: proof, not absence of it), unclear.
        margin: relative difference below which nothing is claimed.
        pairs: interleaved pairs (blocks of both, side by side in time) behind it.
        processes: fresh processes of each side behind it.
        sentence: what to tell the user.
    """

    baseline: str
    candidate: str
    metric: str
    speedup: float
    ci95: tuple[float, float]
    word: Word
    margin: float
    pairs: int
    processes: int = 1
    sentence: str = ""
