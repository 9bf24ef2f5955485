"""The model before anything is changed, looked at in a process of its own: facts, inputs, outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from laptime import targets
from laptime.kit.errors import TargetError, UserCodeError
from laptime.measure.recorded_calls import (
    Array,
    RecordedCall,
    RecordedCalls,
    Run,
    other_batch,
    record,
    record_calls,
)
from laptime.tuning.inference import samples as samples_of_user
from laptime.tuning.inference.arm_process import Host
from laptime.tuning.inference.draft import Refused, first_words
from laptime.tuning.inference.reference import Reference, instructions, of_file, of_torch
from laptime.tuning.inference.samples import Sample


def survey(
    *, target: str, batch: int, samples: str, calls: str, calibration: str, device: str = "cpu"
) -> dict[str, Any]:
    """Look at a target.

    Args:
        batch: items in a call; 0: as the inputs were given.
        samples: function of the user's that gives inputs, or "".
        calls: file for its calls: the inputs of the measurement, others, another batch size.
        calibration: file for the first call alone, which builders may look at.
        device: as `laptime bench` names it, or "auto".

    Returns:
        `refused`: why it cannot be tuned, or "". `batch`; `varies`, `outputs`, `types`, `lengths`: see
        `Draft`; `facts`, `threads`, `inputs` in words, `origin`, `libraries`, `instructions`. `names`: of the
        samples' tensors, [] by position, None without samples. `samples`: calls that are samples.
        `device`: where the model ran; `devices`: what is known of it, as records. `peak`: bytes of this
        process.

    Raises:
        LaptimeError: the target cannot be loaded or called, or the samples are not what it takes.
    """
    drawn = samples_of_user.drawn(samples) if samples else iter(())
    first = next(drawn, None)
    load = of_file if targets.parse(target).file else of_torch
    reference = load(target, batch, first, device)
    run, second = _told(reference.run, samples or target, is_own=not samples), next(drawn, None)
    sizes = [reference.batch, *([other_batch(reference.batch)] if reference.any_batch else ())]
    if first is None or second is None:  # of one sample alone others are made, or nothing would be held out
        recorded, held = record(run, reference.inputs_of, sizes, reference.tables), int(first is not None)
    else:
        every = (each.ordered(reference.keywords) for each in chain((first, second), drawn))
        plan: Iterable[tuple[int, list[Callable[[], list[Array]]]]]
        plan = ((_items(reference, each), [partial(list, each.arrays)]) for each in every)
        recorded = record_calls(run, plan, strict=True)
        held = len(recorded.calls)
        recorded.calls.extend(_of_other_sizes(reference, sizes[1:]))
    lengths, others = _lengths(reference, [call.inputs for call in recorded.calls[: max(held, 1)]])
    shapes = {tuple(array.shape for array in call.inputs) for call in recorded.calls[:held]}
    recorded.optional.extend(range(len(recorded.calls), len(recorded.calls) + len(others)))
    recorded.calls.extend(others)
    recorded.save(Path(calls))
    RecordedCalls(recorded.calls[:1], recorded.undetermined, recorded.rounding).save(Path(calibration))
    try:
        outputs, types = reference.outputs()
    except Refused as refused:
        return {"refused": str(refused)}
    return {
        "refused": recorded.undetermined,
        "batch": reference.batch,
        "varies": list(reference.varies),
        "outputs": outputs,
        "types": types,
        "lengths": lengths,
        "facts": sorted(reference.facts | {"varying_shapes"} if len(shapes) > 1 else reference.facts),
        "threads": reference.threads,
        "inputs": reference.words,
        "origin": f"from {samples}" if samples else reference.origin,
        "libraries": reference.libraries,
        "device": reference.device,
        "devices": msgspec.to_builtins(list(reference.devices)),
        "instructions": instructions(),
        "names": list(first.ordered(reference.keywords).names) if first is not None else None,
        "samples": held,
        "peak": Host().peak(),
    }


def _told(run: Run, source: str, *, is_own: bool) -> Run:
    """The same; what it raises says which inputs it was called with, those of the target or of samples."""

    def told(given: list[Array]) -> Sequence[Array]:
        try:
            return run(given)
        except Exception as error:
            shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in given)
            why = f"inputs {shapes}: {first_words(error)}"
            if is_own:
                next = f"laptime bench {source}"
                raise UserCodeError(f"{source} does not run as it is", why=why, next=next) from error
            next = "yield what one call takes: a tensor, a tuple of tensors, or a dict of tensors"
            raise TargetError(f"the model refuses a sample of {source}", why=why, next=next) from error

    return told


MOST_DIMENSIONS = 3  # of an input whose lengths are tried; images are made for their size


def _lengths(reference: Reference, given: list[list[Array]]) -> tuple[list[list[str]], list[RecordedCall]]:
    """`Draft.lengths`: sizes that differ between samples, or that can be one less, with their calls."""
    first, others = given[0], list[RecordedCall]()
    begins = [1 if varies else 0 for varies in reference.varies]
    places = [(at, each) for at, array in enumerate(first) for each in range(begins[at], array.ndim)]
    seen = {place: tuple(call[place[0]].shape[place[1]] for call in given) for place in places}
    names = [[""] * array.ndim for array in first]
    for (at, each), sizes in seen.items():
        names[at][each] = f"n{'_'.join(map(str, sorted(set(sizes))))}" if len(set(sizes)) > 1 else ""
    small = [(at, each) for at, each in places if first[at].ndim <= MOST_DIMENSIONS and not names[at][each]]
    for size in {first[at].shape[each] for at, each in small} - {0, 1}:
        alike = [(at, each) for at, each in small if first[at].shape[each] == size]
        inputs = list(first)
        for at, each in alike:
            inputs[at] = np.take(inputs[at], range(size - 1), axis=each)
        with suppress(Exception):
            others.append(RecordedCall(reference.batch, inputs, list(reference.run(inputs))))
            for at, each in alike:
                names[at][each] = f"n{size}"
    return names, others


def _items(reference: Reference, sample: Sample) -> int:
    """Items in a sample: the last one may hold fewer than the first."""
    sizes = [array.shape[0] for array, leads in zip(sample.arrays, reference.varies, strict=True) if leads]
    return int(sizes[0]) if sizes else reference.batch


def _of_other_sizes(reference: Reference, sizes: Sequence[int]) -> Iterator[RecordedCall]:
    """The first sample cut or repeated to other batch sizes, where the model takes them."""
    for size in sizes:
        try:
            inputs = reference.inputs_of(size)
            yield RecordedCall(size, inputs, list(reference.run(inputs)))
        except Exception:  # noqa: S112 - sizes that nobody gave need not be possible
            continue
