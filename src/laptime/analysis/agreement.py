"""Do two implementations of one model compute the same? Pure functions on their outputs.

    max_error   largest absolute difference of any element
    relative    the same, of each output tensor over its own scale; the largest of all outputs
    cosine      of the outputs as one vector each; the smallest of all outputs
    top1        share of rows whose largest element is at the same place, of float outputs (rows, classes)

`relative` decides (`verdict`). The scale of an output is half of the range of its reference values, but no
less than a hundredth of the largest of them; of a single value, its magnitude. So a constant that all outputs
share does not hide an error. Cosine and top-1 are told beside it: the cosine of a single value is always 1.

Lies when: the inputs exercise only part of the model; outputs are all alike (an untrained classifier has near
ties, and top1 falls without an error); the program draws random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

Arrays = list[np.ndarray[Any, Any]]
Agreement = Literal["same", "close", "different"]

EXACT, ROUGH = 1e-3, 1e-2
"""Relative error of float32: rounding in another order stays a hundred times below the first; beyond the
second it is another program."""
EXACT_REDUCED, ROUGH_REDUCED = 5e-2, 2e-1
"""The same of float16, bfloat16 and int8, whose single roundings are up to 4e-3 (bfloat16, 8 bits)."""


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
    errors = [_largest(_difference(one, other)) for one, other in pairs]
    ranked = [
        float(np.mean(one.argmax(axis=1) == other.argmax(axis=1)))
        for (one, other), (_, given) in zip(pairs, filled, strict=True)
        if given.dtype.kind == "f" and given.ndim == 2 and given.shape[1] > 1
    ]
    return {
        "max_error": max(errors),
        "relative": max(error / _scale(other) for error, (_, other) in zip(errors, pairs, strict=True)),
        "cosine": min(_cosine(one, other) for one, other in pairs),
        "top1": min(ranked, default=None),
    }


def verdict(difference: Mapping[str, Any], dtype: str) -> Agreement:
    """Whether what `agreement` found is rounding of this dtype, more than that, or another program."""
    exact, rough = (EXACT, ROUGH) if dtype in ("float32", "float64") else (EXACT_REDUCED, ROUGH_REDUCED)
    relative = difference.get("relative")
    if relative is None or not relative <= rough:  # NaN is no agreement either
        return "different"
    return "same" if relative <= exact else "close"


def _scale(reference: np.ndarray[Any, Any]) -> float:
    """What an error of this output is measured by; 1 where all of it is zero."""
    finite = reference[np.isfinite(reference)]
    if not finite.size:
        return 1.0
    magnitude = _largest(finite)
    scale = magnitude if finite.size == 1 else max(float(np.ptp(finite)) / 2, magnitude / 100)
    return scale or 1.0


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
