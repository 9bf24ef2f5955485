"""The model before anything is changed, looked at in a process of its own: facts, inputs, outputs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from laptime.backends.torch.tensors import arrays
from laptime.kit import system_files
from laptime.kit.errors import TargetError
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
from laptime.tuning.inference.draft import Refused, by_position, keywords, opened, plain, structure_of
from laptime.tuning.inference.samples import Sample

_INSTRUCTIONS = (
    *("amx_int8", "amx_bf16", "avx512_fp16", "avx512_bf16", "avx512_vnni", "avx_vnni", "avx512f", "avx2"),
)
_KINDS = {"conv": "_ConvNd", "linear": "Linear", "batchnorm": "_BatchNorm", "attention": "MultiheadAttention"}


def survey(*, target: str, batch: int, samples: str, calls: str, calibration: str) -> dict[str, Any]:
    """Look at a target.

    Args:
        batch: items in a call; 0: as the inputs were given.
        samples: function of the user's that gives inputs, or "".
        calls: file for its calls: the inputs of the measurement, others, another batch size.
        calibration: file for the first call alone, which builders may look at.

    Returns:
        `refused`: why it cannot be tuned, or "". `batch`; `varies`, `outputs`: see `Draft`; `facts`,
        `threads`, `inputs` in words, `origin`, `libraries`, `instructions`. `names`: keywords of the samples'
        tensors, [] by position, None without samples. `samples`: how many of the first calls are samples.

    Raises:
        LaptimeError: the target cannot be loaded or called, or the samples are not what it takes.
    """
    import torch

    drawn = samples_of_user.drawn(samples) if samples else iter(())
    first = next(drawn, None)
    model = opened(target, first)
    batch = batch or model.own_batch() or 1
    module, inputs = by_position(model, batch)
    any_batch = model.batch_leads()
    varies = [bool(any_batch and each.ndim and each.shape[0] == batch) for each in inputs]

    def run(given: list[Array]) -> list[Array]:
        with torch.no_grad():
            return arrays(module(*map(torch.from_numpy, given)))

    def of_size(size: int) -> list[Array]:
        return arrays(by_position(model, size)[1])

    sizes = [batch, *([other_batch(batch)] if any_batch else [])]
    if first is None:
        recorded, held = record(run, of_size, sizes), 0
    else:
        first = first.ordered(keywords(model, batch))
        every = chain([first], (each.ordered(first.names) for each in drawn))
        recorded = _of_samples(run, samples, every, partial(_items, varies=varies, batch=batch))
        held = len(recorded.calls)
        recorded.calls.extend(_of_other_sizes(run, of_size, sizes[1:]))
    recorded.save(Path(calls))
    RecordedCalls(recorded.calls[:1], recorded.undetermined, recorded.rounding).save(Path(calibration))
    try:
        with torch.no_grad():
            outputs = structure_of(plain(module(*inputs)))
    except Refused as refused:
        return {"refused": str(refused)}
    if recorded.undetermined:
        return {"refused": recorded.undetermined}
    told = model.inputs_of(batch)
    return {
        "refused": "",
        "batch": batch,
        "varies": varies,
        "outputs": outputs,
        "facts": sorted(_facts(module)),
        "threads": torch.get_num_threads(),
        "inputs": told["shapes"],
        "origin": f"from {samples}" if samples else told["origin"],
        "libraries": model.libraries(),
        "instructions": _instructions(),
        "names": list(first.names) if first is not None else None,
        "samples": held,
    }


def _of_samples(
    run: Run, function: str, samples: Iterable[Sample], items: Callable[[Sample], int]
) -> RecordedCalls:
    """What the model makes of samples; it has to take all of them.

    Raises:
        TargetError: it refuses one.
    """

    def checked(given: list[Array]) -> Sequence[Array]:
        try:
            return run(given)
        except Exception as error:
            shapes = ", ".join(f"{array.dtype}{list(array.shape)}" for array in given)
            text = str(error).strip().partition("\n")[0][:200]
            raise TargetError(
                f"the model refuses a sample of {function}",
                why=f"inputs {shapes}: {type(error).__name__}: {text}",
                next="yield what one call takes: a tensor, a tuple of tensors, or a dict of tensors",
            ) from error

    plan: Iterable[tuple[int, Callable[[], list[Array]]]]
    plan = ((items(each), partial(list, each.arrays)) for each in samples)
    return record_calls(checked, plan, strict=True)


def _items(sample: Sample, *, varies: Sequence[bool], batch: int) -> int:
    """Items in a sample: the last one may hold fewer than the first."""
    sizes = [array.shape[0] for array, leads in zip(sample.arrays, varies, strict=True) if leads]
    return int(sizes[0]) if sizes else batch


def _of_other_sizes(
    run: Run, of_size: Callable[[int], list[Array]], sizes: Sequence[int]
) -> Iterator[RecordedCall]:
    """The first sample cut or repeated to other batch sizes, where the model takes them."""
    for size in sizes:
        try:
            inputs = of_size(size)
            yield RecordedCall(size, inputs, list(run(inputs)))
        except Exception:  # noqa: S112 - sizes that nobody gave need not be possible
            continue


def _facts(module: Any) -> set[str]:
    """Facts of `tuning.loop_profile.FACT_SENTENCES`."""
    classes = {each.__name__ for part in module.modules() for each in type(part).__mro__}
    facts = {"cpu"} | {fact for fact, name in _KINDS.items() if name in classes}
    if shutil.which("g++") or shutil.which("clang++"):
        facts.add("gcc")
    if {"avx512_bf16", "amx_bf16"} & set(_instructions()):
        facts.add("bf16")
    return facts


def _instructions() -> list[str]:
    """What the CPU has for vectors, widest first."""
    flags = set(
        (system_files.text(Path("/proc/cpuinfo")) or "").partition("\nflags")[2].partition("\n")[0].split()
    )
    return [name for name in _INSTRUCTIONS if name in flags]
