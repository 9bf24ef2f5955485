"""Do two implementations of one model compute the same? Errors of each output tensor, and a word for them.

`measure` looks at outputs of both for the same inputs, several of them; `judge` holds the errors against
what the precision explains. Both are pure: a stored measurement can be judged again.

    rms       root mean square of the error over that of the reference's output; of the worst call
    largest   largest absolute error of any element, over the same root mean square; of the worst call
    gain      factor by which the outputs are the reference's (least squares): 1, whatever rounding does
    spread    how much the reference's output changes with its input, over the same root mean square.
              Outputs that are off by as much follow it no better than a constant; float32 is much nearer
    rounding  rms error that the reference itself makes as the last bits of its inputs change. In 13 untrained
              torchvision models the error of float32 was 0.6 to 1.3 times that, and in a ResNet-152 a
              hundred times what it is in others
    small     rms error of a column of small numbers, scores beside boxes, over that column's own rms

Cosine and top-1 agreement are shown and decide nothing: of one number the cosine is 1 or -1 whatever it is, a
factor does not show in it, and near ties of an untrained classifier change places without an error.

Of whole numbers (labels, ranks, places) `rms` is the share that differs. One that is the place of a value in
another output may differ if the values tie; of all others a percent may, in lower precision.

Lies when: an error shows on other inputs only."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from laptime.kit.units import percent
from laptime.records.details import Agreement, OutputError

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array]
Word = Literal["same", "close", "different", "unknown"]


class Limit(NamedTuple):
    """The errors that rounding explains: largest `rms`, `largest` and distance of `gain` from 1."""

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
GRANTED = 8.0  # times `rounding` that an error may be, up to the limit of the next coarser precision
FOLLOWS = 0.5
"""Errors above this share of the spread: a constant in place of the outputs would do about as well."""
FLIPPED = 0.01
"""Share of whole numbers that may differ in lower precision, and where rounding is known to flip some."""
SMALL, COLUMNS, FILLED, FEW = 1 / 4, 128, 8, 4
"""A column of numbers below this share of its tensor's is looked at for itself, if a tensor has no more
columns, and a column at least so many numbers. Of fewer whole numbers all may be wrong by chance."""
ASKS = "a metric shows whether that matters (--metric)"
OF_SMALL = 10.0  # times the limit that errors of a small column may be, up to FOLLOWS: zeros would do as well
LAST_BITS = 16.0  # of an output, which rounding explains however little other inputs change it
QUANTIZED = 0.1  # share of a model's tensors; a single table of bytes makes none


class Call(NamedTuple):
    """The outputs of both implementations for the same inputs: `batch` items."""

    ours: Arrays
    reference: Arrays
    batch: int


class Judgement(NamedTuple):
    """A word and the numbers that it rests on, as a sentence without a subject."""

    word: Word
    sentence: str
    share: float = 0.0  # of what is allowed that the largest error takes


def measure(
    calls: Sequence[Call], *, against: str, dtype: str = "float32", rounding: Sequence[float] = ()
) -> Agreement:
    """The errors of every output tensor over these calls; NaN at the same places counts as equal.
    calls: at least one; the more inputs and batch sizes, the more they tell. against: name of the reference.
    dtype: its precision. rounding: of each of its output tensors, see the module."""
    batches = sorted({call.batch for call in calls})
    about: dict[str, Any] = {"against": against, "dtype": dtype, "inputs": len(calls), "batches": batches}
    for call in calls:
        shapes, theirs = [one.shape for one in call.ours], [other.shape for other in call.reference]
        if shapes != theirs or not shapes:
            return Agreement(**about, reason=f"outputs differ in shape: {shapes} against {theirs}")
    if len({len(call.ours) for call in calls}) > 1:
        return Agreement(**about, reason="the number of outputs changes with the input")
    places = range(len(calls[0].ours))
    columns = [[(call.ours[at], call.reference[at], call.batch) for call in calls] for at in places]
    known = dict(enumerate(rounding))
    errors = [
        _error(index, column, known.get(index, 0.0), [other for other in columns if other is not column])
        for index, column in enumerate(columns)
        if any(one.size for one, _, _ in column)
    ]
    return Agreement(**about, outputs=errors, reason="" if errors else "the outputs are empty")


def judge(agreement: Agreement, dtype: str) -> Judgement:
    """Judge the errors of an implementation in this precision, the coarser of both sides' counts.

    `same`: no more than its rounding explains. `close`: than that of the next coarser precision. `different`:
    more. `unknown`: the outputs hardly depend on the inputs, so nothing can be told; or, with a `share` above
    1, whole numbers or small columns are off in lower precision, which only a metric can weigh."""
    if agreement.reason:
        return Judgement("different", agreement.reason)
    if agreement.undetermined:
        return Judgement("unknown", agreement.undetermined)
    order = list(LIMITS)
    at = max(order.index(each if each in order else "float32") for each in (dtype, agreement.dtype))
    coarser = LIMITS[order[min(at + 1, len(order) - 1)]]
    is_low = order[at] not in ("float64", "float32")

    def share(error: OutputError) -> tuple[float, float]:
        # Wider if rounding is known to do as much as `granted`; that of a finer precision tells nothing.
        granted, own = min(GRANTED * error.rounding, coarser.rms), LIMITS[order[at]]
        granted *= order[at] == agreement.dtype
        limit = Limit(max(own.rms, granted), max(own.largest, 10 * granted), max(own.gain, granted))
        if error.exact:
            flipped = error.rms / (FLIPPED if is_low else min(limit.rms, FLIPPED))
            is_certain = not is_low or error.largest > FOLLOWS * (error.spread or 1.0)
            return (flipped, 0.0) if is_certain else (0.0, flipped)
        small, shared = error.small / min(OF_SMALL * limit.rms, FOLLOWS), _share(error, limit)
        if is_low:
            return shared, small
        least = LAST_BITS * float(np.finfo(order[at]).eps)
        changes = max(OF_SMALL * limit.rms * (error.spread or 1.0), granted, least)
        return max(shared, small, error.rms / changes), 0.0

    worst = max(agreement.outputs, key=share)
    text, certain = _sentence(worst, agreement), share(worst)[0]
    if certain > 1:
        is_close = _share(worst, coarser) <= 1 and worst.small <= FOLLOWS
        return Judgement("close" if is_close else "different", text, certain)
    worst = max(agreement.outputs, key=lambda error: share(error)[1])
    if (doubtful := share(worst)[1]) > 1:
        return Judgement("unknown", f"{_sentence(worst, agreement)}: {ASKS}", doubtful)
    # Whether an output follows its inputs as the reference's does, and not as a constant would.
    if not any(output.spread and output.rms <= FOLLOWS * output.spread for output in agreement.outputs):
        spread = max((error.spread for error in agreement.outputs if error.spread is not None), default=None)
        why = f"other inputs change the outputs by {spread or 0:.1g} of their size: a constant agrees, too"
        why = "there is only one input to judge by" if spread is None else why
        return Judgement("unknown", f"{text}; {why}", certain)
    return Judgement("same", text, certain)


def _share(error: OutputError, limit: Limit) -> float:
    """The largest share of its limit that any of an output's errors takes."""
    shares = [error.rms / limit.rms, error.largest / limit.largest]
    if error.gain is not None:
        shares.append(abs(error.gain - 1) / limit.gain)
    return max(shares)


def _sentence(error: OutputError, agreement: Agreement) -> str:
    which = f"output {error.output + 1} of {len(agreement.outputs)}: " if len(agreement.outputs) > 1 else ""
    if error.exact:
        text = f"{which}{percent(error.rms)} of its whole numbers differ"
    else:
        text = f"{which}largest error {error.absolute:.2g} ({error.largest:.1g} of the output's RMS)"
        text += f", RMS error {error.rms:.1g}"
        if error.small > error.rms:
            text += f", {error.small:.1g} of a column of small numbers"
        if error.spread and error.spread < SMALL:
            text += f", {percent(error.rms / error.spread)} of what other inputs change"
    if error.gain is not None and abs(error.gain - 1) > max(error.rms, 1e-3) / 2:
        text += f", scaled by {error.gain:.4g}"
    text += f", cosine {error.cosine:.6f}"
    if error.top1 is not None:
        text += f", top-1 the same in {percent(error.top1)}"
    several = f"{agreement.inputs} inputs" if agreement.inputs > 1 else "one input"
    return f"{text}; {several} of batch {', '.join(map(str, agreement.batches))}"


Column = Sequence[tuple[Array, Array, int]]  # of one output tensor: ours, the reference's, items, by call


def _error(at: int, column: Column, rounding: float, others: Sequence[Column] = ()) -> OutputError:
    """Compare an output tensor over all calls. others: the other tensors, whose values whole numbers may be
    places of."""
    exact = all(other.dtype.kind in "biu" for _, other, _ in column)
    places = [place for place, (one, _, _) in enumerate(column) if one.size]
    pairs = [(_flat(one), _flat(other)) for one, other, _ in column if one.size]
    apart = [_difference(one, other) for one, other in pairs]
    ours, theirs = (np.concatenate(side) for side in zip(*pairs, strict=True))
    about: dict[str, Any] = {"output": at, "absolute": max(float(error.max()) for error in apart)}
    about |= {"cosine": _cosine(ours, theirs), "rounding": rounding}
    if exact:
        # By call, where whole numbers may be others: they are places of values that tie within what both err.
        ties = [np.zeros(one.size, bool) for one, _, _ in column]
        for other in others:
            found = [each for each in map(_find_ties, column, other) if each is not None]
            if len(found) == len(column):
                ties = [seen | each.ravel() for seen, each in zip(ties, found, strict=True)]
        wrong = [(apart[n] > 0) & ~ties[place] for n, place in enumerate(places)]
        shares = [float(np.mean(each)) for each in wrong]
        about |= {"spread": _spread(column, 1.0, exact=True), "worst": places[shares.index(max(shares))]}
        largest = max(float(each.sum()) / max(each.size, FEW) for each in wrong)  # one of one says little
        return OutputError(**about, rms=max(shares), largest=largest, exact=True)
    scale = _rms(theirs[np.isfinite(theirs)]) or 1.0
    errors = list(map(_rms, apart))
    # Share of rows of all calls whose largest element is at the same place; None without rows of classes.
    rows = [each for each in column if each[1].dtype.kind == "f" and each[1].ndim == 2]
    rows = [row for row in rows if row[1].shape[1] > 1 and row[1].size]
    ranked = [one.argmax(axis=1) == other.argmax(axis=1) for one, other, _ in rows]
    # The factor that makes the reference's outputs ours, by least squares; None of zeros.
    finite = np.isfinite(ours) & np.isfinite(theirs)
    under = float(theirs[finite] @ theirs[finite])
    return OutputError(
        **about,
        rms=max(errors) / scale,
        worst=places[errors.index(max(errors))],
        largest=about["absolute"] / scale,
        gain=float(ours[finite] @ theirs[finite]) / under if under else None,
        spread=_spread(column, scale, exact=False),
        top1=float(np.mean(np.concatenate(ranked))) if ranked else None,
        small=_small(column, scale),
    )


def _find_ties(labels: tuple[Array, Array, int], values: tuple[Array, Array, int]) -> Array | None:
    """None if the labels are no places of these values: of the largest or smallest ones, of all in order."""
    (ours, theirs, _), (mine, reference, _) = labels, values
    if reference.dtype.kind != "f" or mine.shape != reference.shape or not reference.size:
        return None
    reach = 2 * float(np.max(_difference(_flat(mine), _flat(reference))))
    for axis, size in enumerate(reference.shape):
        rest = (*reference.shape[:axis], *reference.shape[axis + 1 :])
        one = np.expand_dims(theirs, axis) if theirs.shape == rest else theirs
        at = [each.reshape(one.shape).astype(int) for each in (ours, theirs)]
        fits = one.ndim == reference.ndim and (*one.shape[:axis], *one.shape[axis + 1 :]) == rest
        if not fits or any(((each < 0) | (each >= size)).any() for each in at):
            continue
        made, right = (np.take_along_axis(reference, each, axis) for each in at)
        for sign in (-1, 1):
            ordered = sign * np.sort(sign * reference, axis)
            if np.array_equal(ordered.take(range(min(one.shape[axis], size)), axis), right):
                return np.asarray(np.abs(right - made) <= reach)
    steps = np.diff(reference, axis=-1) if reference.ndim else reference
    if theirs.shape == reference.shape and reference.ndim and ((steps <= 0).all() or (steps >= 0).all()):
        near, no = np.abs(steps) <= reach, np.zeros_like(reference[..., :1], bool)
        return np.asarray(np.concatenate([near, no], -1) | np.concatenate([no, near], -1))
    return None


def _small(column: Column, scale: float) -> float:
    """Largest RMS error of a column of small numbers over its own RMS; 0 if there is none.

    A column: one place along a dimension other than the first. Shares of one whole (a softmax) are none."""
    shapes = {other.shape[1:] for _, other, _ in column}
    if len(shapes) > 1 or len(*shapes) < 1 or column[0][1].dtype.kind == "c":
        return 0.0
    ours, theirs = (np.concatenate([np.asarray(each[side], float) for each in column]) for side in (0, 1))
    if not np.isfinite(theirs).all():
        return 0.0
    apart, found = _difference(ours, theirs), 0.0
    for axis in range(1, theirs.ndim):
        size = theirs.shape[axis]
        is_filled = 1 < size <= COLUMNS and theirs.size >= FILLED * size
        if not is_filled or np.allclose(theirs.sum(axis), 1.0, atol=1e-3):
            continue
        rest = tuple(each for each in range(theirs.ndim) if each != axis)
        own, errors = (np.sqrt(np.mean(np.square(each), axis=rest)) for each in (theirs, apart))
        is_small = (own > 0) & (own < SMALL * scale)
        if is_small.any():
            found = max(found, float(np.max(errors[is_small] / own[is_small])))
    return found


def _flat(array: Array) -> Array:
    """Return one vector of floats; complex numbers as two each."""
    values = np.ascontiguousarray(array)
    return np.asarray(values.view(values.real.dtype), np.float64).ravel()


def _difference(one: Array, other: Array) -> Array:
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        apart: Array = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _rms(values: Array) -> float:
    """Infinite if an element is."""
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def _spread(column: Column, scale: float, *, exact: bool) -> float | None:
    """Return how far the reference's outputs for different inputs, and different items, are apart at most."""
    by_shape: dict[tuple[int, ...], list[Array]] = {}
    for _, other, batch in column:
        has_items = other.ndim > 0 and other.shape[0] == batch and batch > 1
        for part in other if has_items else [other]:
            by_shape.setdefault(part.shape, []).append(_flat(part))
    several = (parts for parts in by_shape.values() if parts[0].size)
    apart = [_difference(part, parts[0]) for parts in several for part in parts[1:]]
    if not (apart := apart or list(_overlaps(column))):
        return None
    return max(float(np.mean(each > 0)) if exact else _rms(each[np.isfinite(each)]) / scale for each in apart)


def _overlaps(column: Column) -> Iterator[Array]:
    """Differences of outputs whose shapes depend on the inputs, if both have elements."""
    for (_, one, batch), (_, other, size) in pairwise(column):
        if one.ndim != other.ndim or batch != size:
            continue
        both = tuple(slice(min(lengths)) for lengths in zip(one.shape, other.shape, strict=True))
        if one[both].size:
            yield _difference(_flat(one[both]), _flat(other[both]))


def _cosine(one: Array, other: Array) -> float:
    """1 for equal vectors, zero ones among them; 0 if one of them is zero or not finite."""
    if np.array_equal(one, other, equal_nan=True):
        return 1.0
    with np.errstate(all="ignore"):
        cosine = float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
    return cosine if np.isfinite(cosine) else 0.0


def precision_of(dtype: str, held: Mapping[str, int]) -> str:
    """The precision of a model that is said to run in `dtype` and holds so many tensors by dtype.

    If a tenth of them has 8 bits it is a quantized one, whatever scales and biases are."""
    few_bits = sum(held.get(name, 0) for name in ("int8", "uint8", "int4", "uint4"))
    return "int8" if few_bits > QUANTIZED * sum(held.values()) else dtype
