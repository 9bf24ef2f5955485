"""Quantiles of Student's t distribution, for whole and fractional degrees of freedom."""

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_CLOSE_ENOUGH = 1e-14
_MOST_ITERATIONS = 200


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Quantile of Student's t, relative error below 1e-9 for df from 1 to 1000 and p from 1e-6 to 1 - 1e-6.

    Newton's method on the logarithm of the upper tail over the logarithm of t. That curve is concave, so the
    iteration cannot diverge. The tail is a regularised incomplete beta function (Abramowitz & Stegun 26.7.1).

    Raises ValueError: p is not between 0 and 1, or df is not positive."""
    if not (0 < p < 1 and df > 0):
        raise ValueError(f"no quantile at p={p}, df={df}")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    if p == 0.5:
        return 0.0
    tail = 1 - p
    # Above the quantile or close to it: the tail's power law, or the normal quantile with its first term.
    if df < 3:
        t = float((_scale(df) * math.sqrt(df**df) / tail) ** (1 / df))
    else:
        z = _NORMAL.inv_cdf(1 - tail)
        t = z + (z**3 + z) / (4 * df)
    for _ in range(_MOST_ITERATIONS):
        square = t * t
        x = df / (df + square)
        if x < (df / 2 + 1) / (df / 2 + 2.5):
            probability = 0.5 * _incomplete_beta(x, square / (df + square), df / 2, 0.5)
        else:
            probability = 0.5 - 0.5 * _incomplete_beta(square / (df + square), x, 0.5, df / 2)
        density = _scale(df) * math.exp(-(df + 1) / 2 * math.log1p(square / df))
        step = probability / (t * density) * math.log(probability / tail)
        t *= math.exp(step)
        if abs(step) < _CLOSE_ENOUGH:
            break
    return t


def _scale(df: float) -> float:
    return math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """I_x(a, b) by its continued fraction (DLMF 8.17.22), with Lentz's method; `rest` is 1 - x."""
    beta = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(beta + a * math.log(x) + b * math.log(rest)) / a
    above, below = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1))
    fraction = below
    for m in range(1, _MOST_ITERATIONS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            below = 1.0 / (1.0 + term * below)
            above = 1.0 + term / above
            fraction *= above * below
        if abs(above * below - 1.0) < 1e-16:
            break
    return front * fraction
