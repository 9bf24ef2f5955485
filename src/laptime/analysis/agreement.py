"""Do two frameworks compute the same for one model? Pure functions on their outputs.

    max_error   largest absolute difference of any element
    relative    the same, over the largest magnitude of the reference's outputs
    cosine      of the outputs as one vector each; the smallest of all outputs
    top1        share of rows whose largest element is at the same place, of float outputs (rows, classes)

Lies when: outputs are all alike (an untrained classifier has near ties, and top1 falls without an error); the
program draws random numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = list[np.ndarray[Any, Any]]


def agreement(ours: Arrays, reference: Arrays) -> dict[str, Any]:
    """How far apart the outputs are: `max_error`, `relative`, `cosine`, `top1`; or only a `reason` why not.

    Args:
        ours: outputs in order.
        reference: those of the other framework, for the same inputs.

    Returns:
        Floats; top1 is None where no output has rows of classes. NaN at the same places counts as equal.
    """
    shapes, theirs = [one.shape for one in ours], [other.shape for other in reference]
    if shapes != theirs or not shapes:
        return {"reason": f"outputs differ in shape: {shapes} against {theirs}"}
    filled = [(one, other) for one, other in zip(ours, reference, strict=True) if one.size]
    if not filled:
        return {"reason": "the outputs are empty"}
    pairs = [(np.asarray(one, np.float64), np.asarray(other, np.float64)) for one, other in filled]
    error = max(_largest(_difference(one, other)) for one, other in pairs)
    scale = max(_largest(other) for _, other in pairs)
    ranked = [
        float(np.mean(one.argmax(axis=1) == other.argmax(axis=1)))
        for (one, other), (_, given) in zip(pairs, filled, strict=True)
        if given.dtype.kind == "f" and given.ndim == 2 and given.shape[1] > 1
    ]
    return {
        "max_error": error,
        "relative": error / scale if scale else error,
        "cosine": min(_cosine(one, other) for one, other in pairs),
        "top1": min(ranked, default=None),
    }


def _difference(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        apart: np.ndarray[Any, Any] = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _largest(values: np.ndarray[Any, Any]) -> float:
    return float(np.max(np.abs(values)))


def _cosine(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    """1 for equal vectors, zero ones among them; 0 where one of them is zero or not finite."""
    if np.array_equal(one, other, equal_nan=True):
        return 1.0
    with np.errstate(all="ignore"):
        a, b = one.ravel(), other.ravel()
        cosine = float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
    return cosine if np.isfinite(cosine) else 0.0
