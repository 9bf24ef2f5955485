"""The outputs of one implementation of a model for some inputs, kept for comparing another one with it.

One input tells little: a model that gives its last outputs again, or has frozen a branch that depends on the
data, is right on it. So there are the inputs of the measurement, others like them, and those of another batch
size. Others are made without knowing what they mean: the elements of every array change places, which keeps
shapes, dtypes and the set of values, so that tokens stay tokens and masks stay masks. Then each array in turn
goes `beyond` what it holds: a mask of ones is cut short or gets a gap, floats reach twice as far, get much
smaller or zero, tokens fill their table.

Lies when: the order of the elements is a promise (offsets, sorted lengths). Inputs that the reference refuses
are left out."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from laptime.analysis.agreement import Call, judge, measure
from laptime.records.details import Agreement

Array = np.ndarray[Any, Any]
Run = Callable[[list[Array]], Sequence[Array]]
MOST_BYTES = 256 << 20
"""Of inputs and outputs that are kept; models with more are compared on fewer inputs, at least on one."""
MOST_SECONDS = 10.0
"""Spent on the reference's calls; slower models are compared on fewer inputs, at least on one."""


@dataclass(frozen=True)
class RecordedCall:
    """Inputs of `batch` items and the reference's outputs for them, floats of half precision as float32."""

    batch: int
    inputs: list[Array]
    outputs: list[Array]


@dataclass(frozen=True)
class RecordedCalls:
    """Calls of a reference; the first has the inputs of the measurement."""

    calls: list[RecordedCall] = field(default_factory=list)
    undetermined: str = ""  # why its outputs are no reference: they are others each time
    # by output, the error that it makes when the last bits of its inputs change
    rounding: list[float] = field(default_factory=list)
    # places of calls that an implementation need not take: another length than that of the rest
    optional: list[int] = field(default_factory=list)
    types: list[str] = field(default_factory=list)  # of inputs: bfloat16 lies in float32; [] as they lie

    def save(self, path: Path) -> None:
        about = {name: getattr(self, name) for name in ("undetermined", "rounding", "optional", "types")}
        about["calls"] = [(call.batch, len(call.inputs), len(call.outputs)) for call in self.calls]
        arrays: dict[str, Array] = {}
        for index, call in enumerate(self.calls):
            for side, values in (("input", call.inputs), ("output", call.outputs)):
                arrays |= {f"{index}_{side}_{place}": array for place, array in enumerate(values)}
        np.savez(path, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> "RecordedCalls":
        with np.load(path, allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            calls = [
                RecordedCall(
                    batch,
                    [stored[f"{index}_input_{place}"] for place in range(inputs)],
                    [stored[f"{index}_output_{place}"] for place in range(outputs)],
                )
                for index, (batch, inputs, outputs) in enumerate(about["calls"])
            ]
        return cls(calls, **{name: value for name, value in about.items() if name != "calls"})


MOST_BEYOND = 8  # arrays of a call that go beyond what they hold, each in a call of its own
QUIET = 32  # times smaller: silence, a dark image; more of it would show how rounding grows, and no error


def record(
    run: Run,
    inputs_of: Callable[[int], list[Array]],
    batches: Sequence[int],
    tables: Sequence[Sequence[int] | None] = (),
) -> RecordedCalls:
    """Record the outputs of `run` for the inputs of the measurement, others, and other batch sizes.
    batches: the size that is measured, and more if the model takes any. tables: see `beyond`.
    Raises Exception: whatever the first call raises."""
    own, *others = batches
    plan = [(own, 0), (own, 1), *((other, 0) for other in others), (own, 2)]
    varied = lambda size, seed, axis: variation(inputs_of(size), seed, axis)  # noqa: E731
    alike = ((size, [partial(varied, size, seed, axis) for axis in (None, 0)]) for size, seed in plan)
    given = {own: inputs_of(own)}
    with suppress(Exception):  # several items, too: one may stand for all
        given |= {size: inputs_of(size) for size in others[-1:] if own == 1}
    return record_calls(run, chain(alike, *(beyond(each, size, tables) for size, each in given.items())))


def record_calls(
    run: Run, drawn: Iterable[tuple[int, Sequence[Callable[[], list[Array]]]]], *, strict: bool = False
) -> RecordedCalls:
    """Record the outputs of `run` for as many inputs as time and memory allow.
    drawn: items in a call and what makes its inputs, the first of several that the reference takes; those
    of the measurement first. strict: the reference takes all of them, and what a call raises is raised;
    else inputs after the first that it refuses, or makes no finite numbers of, are left out: they may be
    impossible."""
    began, size, calls = time.perf_counter(), 0, list[RecordedCall]()
    for batch, makes in drawn:
        if calls and (size > MOST_BYTES or time.perf_counter() - began > MOST_SECONDS):
            break
        for make in makes:
            try:
                inputs = [np.array(array) for array in make()]
                outputs = [np.array(array) for array in run([np.array(array) for array in inputs])]
            except Exception:
                if strict or not calls:
                    raise
                continue
            call = RecordedCall(batch, inputs, outputs)
            if strict or not calls or _is_usual(call, calls[0]):
                calls.append(call)
                size += sum(array.nbytes for array in (*inputs, *outputs))
                break
    first = calls[0]
    again = [np.asarray(each) for each in run([np.array(array) for array in first.inputs])]
    repeated = judge(measure([Call(again, first.outputs, first.batch)], against="itself"), "float32")
    is_equal = [each.tobytes() for each in again] == [output.tobytes() for output in first.outputs]
    is_random = repeated.word in ("close", "different") and not is_equal  # empty ones cannot be judged
    text = f"the reference's outputs differ each time: {repeated.sentence}" if is_random else ""
    # Error of each output, of whole numbers the share that differs, when every float of the inputs changes by
    # two units in its last place.
    nudged = Call(run(list(map(_nudge, first.inputs))), first.outputs, first.batch)
    errors = {error.output: error.rms for error in measure([nudged], against="itself").outputs}
    return RecordedCalls(calls, text, [errors.get(at, 0.0) for at in range(len(first.outputs))])


def _nudge(array: Array) -> Array:
    if array.dtype.kind not in "fc":
        return np.array(array)
    signs = np.random.default_rng(0).choice((-1.0, 1.0), array.shape)
    return np.asarray(array * (1 + 2 * np.finfo(array.dtype).eps * signs), array.dtype)


def variation(given: Sequence[Array], seed: int, axis: int | None = None) -> list[Array]:
    """Other inputs of the same shapes and dtypes: the same values in another order, where they differ.
    seed: 0 leaves them. axis: along which they change places, so that columns keep theirs; None: anywhere."""
    generator, made = np.random.default_rng(seed), list[Array]()
    for array in given:
        made.append(generator.permuted(array, axis=axis) if seed and array.ndim else array)
        if seed and array.dtype.kind == "f" and np.array_equal(made[-1], array, equal_nan=True):
            # Constants keep their sign and never grow: a logarithm, a root and a probability take them.
            made[-1] = np.asarray(array * generator.uniform(0.5, 1.0, array.shape), array.dtype)
    return made


def beyond(
    given: list[Array], batch: int, tables: Sequence[Sequence[int] | None] = ()
) -> Iterator[tuple[int, list[Callable[[], list[Array]]]]]:
    """Calls for `record_calls` in which one array after the other leaves what it holds in the measurement,
    whose inputs are `given`. tables: by input, sizes of tables that its whole numbers may be places in, of
    all or by column; None: no larger ones, as a place outside of a table ends the process of a GPU."""
    generator, lengths = np.random.default_rng(3), {size for array in given for size in array.shape}
    with_other = lambda at, other: [*given[:at], other, *given[at + 1 :]]  # noqa: E731
    for at, array in enumerate(given[:MOST_BEYOND]):
        sizes = tables[min(at, len(tables) - 1)] if tables else ()  # a list has as many inputs as items
        for others in _beyond(array, sizes, lengths, generator) if array.size else ():
            yield batch, [partial(with_other, at, each) for each in others]


def _beyond(
    array: Array, sizes: Sequence[Any] | None, lengths: set[int], generator: np.random.Generator
) -> Iterator[list[Array]]:
    """The array with values that it does not hold, those of a call each; the farthest first, as the reference
    need not take it. lengths: of all arrays, which nothing exceeds that may be one."""
    low, high, kind = array.min(), array.max(), array.dtype.kind
    if kind in "iu" and (high > 1 or sizes or array.itemsize == 1):
        # Counts, steps, places in time; bytes of an image.
        most = int(np.iinfo(array.dtype).max)
        far = most if array.itemsize == 1 else 0 if high in lengths or high < 2 else min(2 * int(high), most)
        ranges = [] if sizes is None else [*((0, size) for size in sizes), (min(int(low), 1), far + 1)]
        held = array.reshape(-1, array.shape[-1]).max(0) if array.ndim > 1 else high
        yield [_fill(array, *each, generator) for each in ranges if np.any(each[1] > held.astype(int) + 1)]
        if far and low < high > 1 and (not sizes or array.itemsize == 1):
            yield [np.zeros_like(array)]  # silence, a black image
        if low == high > 1:
            fewer = -np.sort(-generator.integers(1, int(high) + 1, array.size))
            yield [np.asarray(fewer.reshape(array.shape), array.dtype)]  # falling: some take no other order
    if low == high and high in (0, 1):  # a mask that masks nothing: cut short, and with a gap
        yield from ([_mask_out(array, generator, at_end=at_end)] for at_end in (True, False))
    if kind in "fc" and (low or high):
        middle = (low + high) / 2 * bool(low != high)  # a constant gets larger
        yield [np.asarray(middle + 2 * (array - middle), array.dtype), 2 * array]
        yield from ([array / QUIET], [np.zeros_like(array)])
    elif kind in "fc":
        yield [np.asarray(generator.standard_normal(array.shape), array.dtype)]


def _fill(array: Array, low: int, high: Any, generator: np.random.Generator) -> Array:
    """Whole numbers from `low` to below `high`, of all or by column, both ends among them."""
    numbers = np.asarray(generator.integers(low, high, array.shape))
    numbers.flat[0], numbers.flat[-1] = low, np.ravel(high)[-1] - 1
    return np.asarray(numbers, array.dtype)


def _mask_out(mask: Array, generator: np.random.Generator, *, at_end: bool) -> Array:
    """A mask of ones (or zeros) with zeros (or ones) at the end of each row, or behind its first place."""
    rows = mask.reshape(-1, mask.shape[-1] if mask.ndim else 1).copy()
    for row in rows:
        size = generator.integers(1, rows.shape[1] // 2 + 1, endpoint=True)
        row[slice(-size, None) if at_end else slice(1, 1 + size)] = not row[0]
    return np.asarray(rows.reshape(mask.shape))


def _is_usual(call: RecordedCall, first: RecordedCall) -> bool:
    """Whether outputs are finite if those of the first call are; another mask may leave infinite ones."""
    floats = (pair for pair in zip(call.inputs, first.inputs, strict=False) if pair[0].dtype.kind in "fc")
    is_masked = all(np.array_equal(*pair, equal_nan=True) for pair in floats)
    is_right = all(np.all(np.isfinite(each) | (is_masked & ~np.isnan(each))) for each in call.outputs)
    return is_right or not all(np.isfinite(each).all() for each in first.outputs)


def other_batch(batch: int) -> int:
    """A second batch size: what is frozen at one shows at another."""
    return 2 if batch == 1 else 1


def compare(run: Run, recorded: RecordedCalls, *, against: str, dtype: str, fixed: bool = False) -> Agreement:
    """Return how far what `run` makes of the recorded inputs is from the recorded outputs of the reference
    `against`, in its dtype. fixed: `run` need not take other batch sizes than the first."""
    calls: list[Call] = []
    if recorded.undetermined:
        return Agreement(against=against, dtype=dtype, undetermined=recorded.undetermined)
    for call in recorded.calls:
        try:
            ours = [np.array(array) for array in run([np.array(array) for array in call.inputs])]
        except Exception as error:
            if fixed and call.batch != recorded.calls[0].batch:
                continue
            text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
            reason = f"it fails on inputs of batch {call.batch} that {against} takes: {text}"
            return Agreement(against=against, dtype=dtype, reason=reason)
        calls.append(Call(ours, call.outputs, call.batch))
    return measure(calls, against=against, dtype=dtype, rounding=recorded.rounding)
