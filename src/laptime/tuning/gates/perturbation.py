"""What rounding errors alone do to a step: the baseline with the last bits of its activations rounded away.

An activation whose sign turns because it lay within a rounding error of zero changes all gradients before it
by far more than a rounding error (ResNet-18, 4 images of 224 x 224, channels_last: 0.2 % of a tensor where
0.001 % was allowed). Three times what this witness shows is granted to class reassociated, within bounds:
where rounding errors do more than that, they cannot be told from harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from laptime.tuning.gates.captured_numerics import Row, lengthened, turned

TIMES = 3.0
"""As for a baseline that differs from itself (`numeric.FLOOR`)."""
MOST = 0.02
"""Relative error of a tensor."""
MOST_SCALED = 0.01
"""Of the norm of all gradients."""
LEAST_COSINE = 0.999
"""Of all gradients."""


def granted(rows: Iterable[Row], scale: Callable[[Row], float]) -> dict[str, float]:
    """By group, the relative error that any of its tensors may have: it strikes another one each time.

    Args:
        rows: tensors of the perturbed baseline. scale: what the error of a row is relative to.
    """
    found: dict[str, float] = {}
    for row in rows:
        if row.point and row.error is not None:
            error = min(MOST, TIMES * row.error / scale(row))
            found[row.group] = max(error, found.get(row.group, 0.0))
    return found


def norm(totals: Sequence[Row], usual: float) -> float:
    """How far the norm of all gradients may be off, relative."""
    return max(usual, min(MOST_SCALED, TIMES * max(lengthened(totals), default=0.0)))


def cosine(totals: Sequence[Row], usual: float) -> float:
    """The least cosine of all gradients."""
    return min(usual, max(LEAST_COSINE, 1 - TIMES * max(turned(totals), default=0.0)))
