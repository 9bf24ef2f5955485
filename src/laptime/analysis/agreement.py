"""Do two implementations of one model compute the same? Errors of each output tensor, and a word for them.

`measured` looks at outputs of both for the same inputs, several of them; `judged` holds the errors against
what the precision explains. Both are pure: a stored measurement can be judged again.

    rms       root mean square of the error over that of the reference's output; of the worst call
    largest   largest absolute error of any element, over the same root mean square; of the worst call
    gain      factor by which the outputs are the reference's (least squares): 1, whatever rounding does
    spread    how much the reference's output changes with its input, over the same root mean square.
              Outputs that are off by as much follow their input no better than a constant does
    rounding  rms error that the reference itself makes as the last bits of its inputs change. In 13 untrained
              torchvision models the error of float32 was 0.6 to 1.3 times that, and in a ResNet-152 a
              hundred times what it is in others

Cosine and top-1 agreement are told and decide nothing: of one number the cosine is 1 or -1 whatever it is, a
factor does not show in it, and near ties of an untrained classifier change places without an error.

Lies when: an error shows on other inputs only; a tensor holds small and large numbers (boxes beside scores),
so that an error of the small ones is nothing to its root mean square.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from laptime.kit.units import percent
from laptime.records.agreement import Agreement, OutputError

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array]

Word = Literal["same", "close", "different", "unknown"]


class Limit(NamedTuple):
    """What rounding explains: largest `rms`, `largest` and distance of `gain` from 1."""

    rms: float
    largest: float
    gain: float


LIMITS: dict[str, Limit] = {
    "float64": Limit(1e-9, 1e-8, 1e-9),
    "float32": Limit(5e-5, 5e-4, 5e-5),
    "float16": Limit(0.06, 0.3, 0.01),
    "bfloat16": Limit(0.25, 1.0, 0.05),
    "int8": Limit(0.4, 1.6, 0.1),
}
"""By precision, fine to coarse. float32 is 7 times, float16 and bfloat16 twice what the worst of untrained
torchvision models did (docs/backends.md); int8 is one step further."""

GRANTED = 8.0
"""Times `rounding` that an error may be, up to the limit of the next coarser precision."""

FOLLOWS = 0.5
"""Errors above this share of the spread: a constant in place of the outputs would do about as well."""


QUANTIZED = 0.1
"""Share of a model's tensors; a single table of bytes makes none."""


class Call(NamedTuple):
    """What both made of the same inputs: `batch` items."""

    ours: Arrays
    reference: Arrays
    batch: int


class Judgement(NamedTuple):
    """A word and the numbers that it rests on, as a sentence without a subject.

    Attributes:
        share: of what is allowed that the largest error takes.
    """

    word: Word
    sentence: str
    share: float = 0.0


def measured(
    calls: Sequence[Call], *, against: str, dtype: str = "float32", rounding: Sequence[float] = ()
) -> Agreement:
    """The errors of every output tensor over these calls; NaN at the same places counts as equal.

    Args:
        calls: at least one; the more inputs and batch sizes, the more they tell.
        against: name of the reference.
        dtype: its precision.
        rounding: of each of its output tensors, see the module.
    """
    batches = sorted({call.batch for call in calls})
    about: dict[str, Any] = {"against": against, "dtype": dtype, "inputs": len(calls), "batches": batches}
    for call in calls:
        shapes, theirs = [one.shape for one in call.ours], [other.shape for other in call.reference]
        if shapes != theirs or not shapes:
            return Agreement(**about, reason=f"outputs differ in shape: {shapes} against {theirs}")
    columns = [
        [(call.ours[at], call.reference[at], call.batch) for call in calls]
        for at in range(len(calls[0].ours))
    ]
    if len({len(call.ours) for call in calls}) > 1:
        return Agreement(**about, reason="the number of outputs changes with the input")
    known = dict(enumerate(rounding))
    errors = [
        _error(at, column, known.get(at, 0.0))
        for at, column in enumerate(columns)
        if any(one.size for one, _, _ in column)
    ]
    return Agreement(**about, outputs=errors, reason="" if errors else "the outputs are empty")


def judged(agreement: Agreement, dtype: str) -> Judgement:
    """What the errors mean for an implementation in this precision; the coarser of both sides' counts.

    `same`: no more than its rounding explains. `close`: than that of the next coarser precision. `different`:
    more. `unknown`: the outputs hardly depend on the inputs, so nothing can be told.
    """
    if agreement.reason:
        return Judgement("different", agreement.reason)
    if agreement.undetermined:
        return Judgement("unknown", agreement.undetermined)
    order = list(LIMITS)
    at = max(
        order.index(each) if each in order else order.index("float32") for each in (dtype, agreement.dtype)
    )
    coarser = LIMITS[order[min(at + 1, len(order) - 1)]]
    is_own = order[at] == agreement.dtype  # else its rounding is that of a finer precision

    def share(error: OutputError) -> float:
        granted = min(GRANTED * error.rounding, coarser.rms) if is_own else 0.0
        return _share(error, _widened(LIMITS[order[at]], granted))

    worst = max(agreement.outputs, key=share)
    text = _sentence(worst, agreement)
    if share(worst) > 1:
        return Judgement("close" if _share(worst, coarser) <= 1 else "different", text, share(worst))
    if not any(map(_follows, agreement.outputs)):
        return Judgement("unknown", f"{text}; {_why_unknown(agreement)}", share(worst))
    return Judgement("same", text, share(worst))


def _widened(limit: Limit, granted: float) -> Limit:
    """The limit where rounding is known to do as much as `granted`."""
    return Limit(max(limit.rms, granted), max(limit.largest, 10 * granted), max(limit.gain, granted))


def _share(error: OutputError, limit: Limit) -> float:
    """The largest share of its limit that any of an output's errors takes."""
    shares = [error.rms / limit.rms, error.largest / limit.largest]
    if error.gain is not None:
        shares.append(abs(error.gain - 1) / limit.gain)
    return max(shares)


def _follows(error: OutputError) -> bool:
    """Whether the output follows its inputs as the reference's does, and not as a constant would."""
    return error.spread is not None and error.spread > 0 and error.rms <= FOLLOWS * error.spread


def _why_unknown(agreement: Agreement) -> str:
    spreads = [error.spread for error in agreement.outputs if error.spread is not None]
    if not spreads:
        return "there is only one input to tell by"
    return f"other inputs change the outputs by {max(spreads):.1g} of their size: a constant would agree, too"


def _sentence(error: OutputError, agreement: Agreement) -> str:
    which = f"output {error.output + 1} of {len(agreement.outputs)}: " if len(agreement.outputs) > 1 else ""
    if error.exact:
        text = f"{which}{percent(error.rms)} of its whole numbers differ"
    else:
        text = f"{which}largest error {error.absolute:.2g} ({error.largest:.1g} of the output's RMS)"
        text += f", RMS error {error.rms:.1g}"
    if error.gain is not None and abs(error.gain - 1) > max(error.rms, 1e-3) / 2:
        text += f", scaled by {error.gain:.4g}"
    text += f", cosine {error.cosine:.6f}"
    if error.top1 is not None:
        text += f", top-1 the same in {percent(error.top1)}"
    sizes = ", ".join(map(str, agreement.batches))
    several = f"{agreement.inputs} inputs" if agreement.inputs > 1 else "one input"
    return f"{text}; {several} of batch {sizes}"


def _error(at: int, column: Sequence[tuple[Array, Array, int]], rounding: float) -> OutputError:
    """Of one output tensor over all calls."""
    exact = all(other.dtype.kind in "biu" for _, other, _ in column)
    places = [place for place, (one, _, _) in enumerate(column) if one.size]
    pairs = [(_flat(one), _flat(other)) for one, other, _ in column if one.size]
    apart = [_difference(one, other) for one, other in pairs]
    cosine = _cosine(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
    absolute = max(float(error.max()) for error in apart)
    if exact:
        shares = [float(np.mean(error > 0)) for error in apart]
        share = max(shares)
        return OutputError(
            output=at, rms=share, largest=share, absolute=absolute, cosine=cosine,
            spread=_spread(column, 1.0, exact=True), exact=True, worst=places[shares.index(share)],
        )  # fmt: skip
    scale = _rms(_finite(np.concatenate([other for _, other in pairs]))) or 1.0
    errors = list(map(_rms, apart))
    return OutputError(
        output=at,
        rms=max(errors) / scale,
        worst=places[errors.index(max(errors))],
        largest=absolute / scale,
        absolute=absolute,
        gain=_gain(pairs),
        spread=_spread(column, scale, exact=False),
        cosine=cosine,
        top1=_top1(column),
        rounding=rounding,
    )


def _flat(array: Array) -> Array:
    """As one vector of floats; complex numbers as two each."""
    values = np.ascontiguousarray(array)
    if values.dtype.kind == "c":
        values = values.view(values.real.dtype)
    return np.asarray(values, np.float64).ravel()


def _difference(one: Array, other: Array) -> Array:
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        apart: Array = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _rms(values: Array) -> float:
    """Infinite where an element is."""
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def _finite(values: Array) -> Array:
    return values[np.isfinite(values)]


def _gain(pairs: Sequence[tuple[Array, Array]]) -> float | None:
    """The factor that makes the reference's outputs ours, by least squares; None of zeros."""
    over = under = 0.0
    for one, other in pairs:
        finite = np.isfinite(one) & np.isfinite(other)
        over += float(one[finite] @ other[finite])
        under += float(other[finite] @ other[finite])
    return over / under if under else None


def _spread(column: Sequence[tuple[Array, Array, int]], scale: float, *, exact: bool) -> float | None:
    """How far the reference's outputs for different inputs, and different items, are apart at most."""
    by_shape: dict[tuple[int, ...], list[Array]] = {}
    for _, other, batch in column:
        has_items = other.ndim > 0 and other.shape[0] == batch and batch > 1
        for part in other if has_items else [other]:
            by_shape.setdefault(part.shape, []).append(_flat(part))
    apart = [
        _difference(part, parts[0]) for parts in by_shape.values() for part in parts[1:] if parts[0].size
    ]
    apart = apart or list(_overlaps(column))
    if not apart:
        return None
    return max(float(np.mean(each > 0)) if exact else _rms(_finite(each)) / scale for each in apart)


def _overlaps(column: Sequence[tuple[Array, Array, int]]) -> Iterator[Array]:
    """Differences of outputs whose shapes depend on the inputs, where both have elements."""
    for (_, one, batch), (_, other, size) in pairwise(column):
        if one.ndim != other.ndim or batch != size:
            continue
        both = tuple(slice(min(lengths)) for lengths in zip(one.shape, other.shape, strict=True))
        if one[both].size:
            yield _difference(_flat(one[both]), _flat(other[both]))


def _cosine(one: Array, other: Array) -> float:
    """1 for equal vectors, zero ones among them; 0 where one of them is zero or not finite."""
    if np.array_equal(one, other, equal_nan=True):
        return 1.0
    with np.errstate(all="ignore"):
        cosine = float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
    return cosine if np.isfinite(cosine) else 0.0


def _top1(column: Sequence[tuple[Array, Array, int]]) -> float | None:
    """Share of rows of all calls whose largest element is at the same place; None without rows of classes."""
    ranked = [
        one.argmax(axis=1) == other.argmax(axis=1)
        for one, other, _ in column
        if other.dtype.kind == "f" and other.ndim == 2 and other.shape[1] > 1 and other.size
    ]
    return float(np.mean(np.concatenate(ranked))) if ranked else None


def precision_of(dtype: str, held: Mapping[str, int]) -> str:
    """The precision of a model that is said to run in `dtype` and holds so many tensors by dtype.

    Where a tenth of them has 8 bits it is a quantized one, whatever scales and biases are.
    """
    few_bits = sum(held.get(name, 0) for name in ("int8", "uint8", "int4", "uint4"))
    return "int8" if few_bits > QUANTIZED * sum(held.values()) else dtype
