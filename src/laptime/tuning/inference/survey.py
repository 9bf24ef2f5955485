"""The model before anything is changed, looked at in a process of its own: facts, inputs, outputs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from laptime import targets
from laptime.backends import onnxruntime as backend
from laptime.backends._onnx import inputs as of_files
from laptime.backends.torch import place
from laptime.backends.torch.tensors import arrays, tensors
from laptime.kit import system_files
from laptime.kit.errors import TargetError, UsageError, UserCodeError
from laptime.measure.recorded_calls import Array, RecordedCall, Run, other_batch, record, record_calls
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.tuning.catalogue import allocator, huge_pages
from laptime.tuning.catalogue.flush_denormal import MATTERS, SMALLEST_NORMAL
from laptime.tuning.inference import samples as samples_of_user
from laptime.tuning.inference.arm_process import Cpu, first_words, to_tensors, types_of
from laptime.tuning.inference.draft import NoDraft, by_position, load_target, plain, structure_of
from laptime.tuning.inference.samples import Sample
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.trial.facts import by_capability

if TYPE_CHECKING:
    import torch


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
        samples' tensors, [] by position, None without samples. `samples`: calls that are samples. `changes`:
        a call changes its inputs. `device`: where the model ran; `devices`: what is known of it, as records.
        `peak`: bytes of this process.

    Raises:
        LaptimeError: the target cannot be loaded or called, or the samples are not what it takes.
    """
    drawn = samples_of_user.draw(samples) if samples else iter(())
    first = next(drawn, None)
    load = of_file if targets.parse(target).file else of_torch
    reference = load(target, batch, first, device)
    run, second = _explain(reference.run, samples or target, is_own=not samples), next(drawn, None)
    own, other = reference.batch, other_batch(reference.batch)
    sizes = [own, *((other, max(own, other) + 1) if reference.any_batch else ())]
    if first is None or second is None:  # of one sample alone others are made, or nothing would be held out
        recorded, held = record(run, reference.inputs_of, sizes, reference.tables), int(first is not None)
    else:
        every = (each.reorder(reference.keywords).arrays for each in chain((first, second), drawn))
        leads = reference.varies.index(True) if any(reference.varies) else -1
        sized = ((each[leads].shape[0] if leads >= 0 else reference.batch, each) for each in every)
        recorded = record_calls(run, ((items, [partial(list, each)]) for items, each in sized), strict=True)
        held = len(recorded.calls)
        for size in sizes[1:]:  # the first sample cut or repeated, if the model takes that
            with suppress(Exception):
                inputs = reference.inputs_of(size)
                recorded.calls.append(RecordedCall(size, inputs, list(reference.run(inputs))))
    lengths, others = _lengths(reference, [call.inputs for call in recorded.calls[: max(held, 1)]])
    shapes = {tuple(array.shape for array in call.inputs) for call in recorded.calls[:held]}
    recorded.optional.extend(range(len(recorded.calls), len(recorded.calls) + len(others)))
    recorded.calls.extend(others)
    recorded.types.extend(reference.types)
    recorded.save(Path(calls))
    replace(recorded, calls=recorded.calls[:1], optional=[]).save(Path(calibration))
    given = [np.array(each) for each in recorded.calls[0].inputs]
    run(given)
    both = zip(given, recorded.calls[0].inputs, strict=True)
    try:
        outputs, types = reference.outputs()
    except NoDraft as refused:
        return {"refused": str(refused)}
    as_they_are = ("batch", "varies", "threads", "inputs", "libraries", "device", "precision")
    return {
        **{name: getattr(reference, name) for name in as_they_are},
        "refused": recorded.undetermined,
        "outputs": outputs,
        "types": types,
        "lengths": lengths,
        "changes": any(one.tobytes() != other.tobytes() for one, other in both),
        "facts": sorted(reference.facts | {"varying_shapes"} if len(shapes) > 1 else reference.facts),
        "origin": f"from {samples}" if samples else reference.origin,
        "devices": msgspec.to_builtins(list(reference.devices)),
        "instructions": instructions(),
        "names": list(first.reorder(reference.keywords).names) if first is not None else None,
        "samples": held,
        "peak": Cpu().peak(),
    }


def _explain(run: Run, source: str, *, is_own: bool) -> Run:
    """The same; what it raises says which inputs it was called with, those of the target or of samples."""

    def try_run(given: list[Array]) -> Sequence[Array]:
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

    return try_run


MOST_DIMENSIONS = 3  # of an input whose lengths are tried, of masks with it too; images keep their size


def _lengths(reference: Reference, given: list[list[Array]]) -> tuple[list[list[str]], list[RecordedCall]]:
    """`Draft.lengths`: sizes that differ between samples, or can be one less or more, with their calls."""
    first, others = given[0], list[RecordedCall]()
    begins = [1 if varies else 0 for varies in reference.varies]
    places = [(index, each) for index, array in enumerate(first) for each in range(begins[index], array.ndim)]
    seen = {place: tuple(call[place[0]].shape[place[1]] for call in given) for place in places}
    names = [[""] * array.ndim for array in first]
    for (at, each), sizes in seen.items():
        names[at][each] = f"n{'_'.join(map(str, sorted(set(sizes))))}" if len(set(sizes)) > 1 else ""
    left = [(at, each) for at, each in places if not names[at][each]]
    for size in {first[at].shape[each] for at, each in left if first[at].ndim <= MOST_DIMENSIONS} - {0, 1}:
        alike = [(at, each) for at, each in left if first[at].shape[each] == size]
        for other in (size - 1, size + 1):
            inputs = list(first)
            for at, each in alike:
                inputs[at] = np.take(inputs[at], range(other), axis=each, mode="wrap")
            with suppress(Exception):
                others.append(RecordedCall(reference.batch, inputs, list(reference.run(inputs))))
                for at, each in alike:
                    names[at][each] = f"n{size}"
    return names, others


# The model as it is, ready to be called: what is looked at, and what all folders are held against.
# `of_torch` is a target in PyTorch, `of_file` an ONNX file, run by ONNX Runtime with its defaults.


_INSTRUCTIONS = (
    *("amx_int8", "amx_bf16", "amx_fp16", "avx512_fp16", "avx512_bf16", "avx512_vnni", "avx_vnni"),
    *("avx512f", "avx2"),
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A target that takes arrays and gives arrays."""

    run: Run  # a call
    inputs_of: Callable[[int], list[Array]]  # inputs of a call of so many items
    batch: int  # items in a call
    any_batch: bool  # it takes other numbers, too
    varies: list[bool]  # by input, see `Draft`
    keywords: Sequence[str]  # names of its inputs
    # see `Draft.outputs` and `types`; may raise `NoDraft`
    outputs: Callable[[], tuple[Sequence[str | None] | None, list[str]]]
    # by input, sizes of tables that its whole numbers may be places in, see `beyond`
    tables: Sequence[Sequence[Any] | None] = ()
    types: Sequence[str]  # of its inputs
    precision: str = "float32"  # of weights and inputs, the coarsest: what outputs are held to
    facts: frozenset[str]  # of `tuning.loop_profile.FACT_SENTENCES`
    threads: int  # in a call; 0: the runtime's own choice
    inputs: str  # in words
    origin: str  # where they come from
    libraries: dict[str, str]  # versions
    device: str = "cpu"  # where it runs, as torch names it
    devices: Sequence[Device] = ()  # what is known of it


def facts_of_machine() -> frozenset[str]:
    """Return the machine's facts for any model."""
    known, profile = set(instructions()), LoopProfile()
    found = {
        "bf16": known & {"avx512_bf16", "amx_bf16"},
        "fp16": known & {"avx512_fp16", "amx_fp16"},
        "glibc_malloc": not allocator.why_not(profile),
        "huge_pages_on_request": not huge_pages.why_not(profile),
    }
    return frozenset({"cpu"} | compilers() | {name for name, holds in found.items() if holds})


def compilers() -> set[str]:
    """`gcc` if there is a C++ compiler."""
    return {"gcc"} if shutil.which("g++") or shutil.which("clang++") else set()


def instructions() -> list[str]:
    """List the CPU's vector instructions, widest first."""
    text = system_files.text(Path("/proc/cpuinfo")) or ""
    flags = set(text.partition("\nflags")[2].partition("\n")[0].split())
    return [name for name in _INSTRUCTIONS if name in flags]


def device_of(name: str) -> str:
    """The device of a name; "auto" is the first CUDA device, else the CPU: folders run on nothing else."""
    if name != "auto":
        return name
    return next((each for each in place.present() if each.startswith("cuda")), "cpu")


def facts_of_cuda(device: torch.device) -> frozenset[str]:
    """Return a CUDA device's facts for any model, of `tuning.loop_profile.FACT_SENTENCES`."""
    import torch

    fast = {"bf16", "fp16"} if torch.version.hip else by_capability(torch.cuda.get_device_capability(device))
    return frozenset({"cuda"} | fast | compilers())


_KINDS = {"conv": "_ConvNd", "linear": "Linear", "batchnorm": "_BatchNorm", "attention": "MultiheadAttention"}


def of_torch(target: str, batch: int, sample: Sample | None, device: str = "cpu") -> Reference:
    """The target, loaded.
    batch: items in a call; 0: as the inputs were given. sample: inputs in place of the target's own. device:
    as `laptime bench` names it; "auto" is a CUDA device if there is one, else the CPU.
    Raises LaptimeError: it cannot be loaded."""
    import torch

    from laptime.backends._onnx.exporting import call_of

    where = place.resolve(device_of(device))
    model = load_target(target, sample, str(where))
    batch = batch or model.own_batch() or 1
    module, inputs = by_position(model, batch)
    any_batch, types = model.batch_leads(), types_of(inputs)

    def run(given: list[Array]) -> list[Array]:
        with torch.no_grad():
            return arrays(module(*(each.to(where) for each in to_tensors(given, types))))

    def outputs() -> tuple[Sequence[str | None] | None, list[str]]:
        with torch.no_grad():
            made = plain(module(*inputs))
        return structure_of(made), types_of(made)

    told = model.inputs_of(batch)
    classes = {each.__name__ for part in module.modules() for each in type(part).__mro__}
    facts = facts_of_cuda(where) if where.type == "cuda" else facts_of_machine() | _of_weights(module)
    held = types_of([*tensors(module.state_dict()), *inputs])
    sizes = {size for each in tensors(module.state_dict()) if each.ndim <= 2 for size in each.shape}
    return Reference(
        run=run,
        inputs_of=lambda size: arrays(by_position(model, size)[1]),
        batch=batch,
        any_batch=any_batch,
        varies=[bool(any_batch and each.ndim and each.shape[0] == batch) for each in inputs],
        keywords=list(call_of(model.workload(batch))[2]),
        outputs=outputs,
        tables=[None] * len(inputs) if where.type == "cuda" else _tables(run, arrays(inputs), sizes),
        types=types,
        precision=next((each for each in ("bfloat16", "float16") if each in held), "float32"),
        facts=facts | {fact for fact, name in _KINDS.items() if name in classes},
        threads=torch.get_num_threads(),
        inputs=told["shapes"],
        origin=told["origin"],
        libraries=model.libraries(),
        device=str(where),
        devices=model.devices() if where.type == "cuda" else (),
    )


PLACES, PATIENCE = 32, 2.0  # columns that may have tables of their own; seconds that looking may take


def _tables(run: Run, given: list[Array], sizes: set[int]) -> list[list[Any]]:
    """`Reference.tables`: whole numbers that may be any, masks and counts, are places in none."""
    tables, until = [list[Any]() for _ in given], time.perf_counter() + PATIENCE
    order = sorted({*sizes, max(sizes, default=0) + 1}, reverse=True)

    def end(at: int, column: Any, low: int) -> int:
        """The first number that is refused: at least `low`, at most one above the largest size."""
        high = max(order)
        while low < high and time.perf_counter() < until:
            number = next((size - 1 for size in order if low < size <= high), (low + high) // 2)
            far, high, refused = [each.copy() for each in given], number, high
            with suppress(Exception):
                np.atleast_1d(far[at])[..., column] = number
                run(far)
                low, high = number + 1, refused
        return low

    for at, each in enumerate(given if sizes else ()):
        if each.dtype.kind in "iu" and each.size:
            table = end(at, slice(None), int(each.max()) + 1)
            columns = range(each.shape[-1] if each.ndim > 1 and each.shape[-1] <= PLACES else 0)
            own = [np.array([end(at, n, table) for n in columns])] if columns else []
            tables[at] = [*own, table] if table <= max(sizes) else []
    return tables


TABLES = {2**each for each in range(2, 19)}  # sizes that are tried where nothing tells the right one


def of_file(target: str, batch: int, sample: Sample | None, device: str = "cpu") -> Reference:
    """The file, loaded.
    batch: items in a call; 0: 1, or what the file is made for. sample: inputs in place of random ones.
    device: "cpu" or "auto", which is the CPU: an accelerator is refused before (`request.check`).
    Raises LaptimeError: it cannot be loaded, or leaves sizes open that only samples can tell."""
    model = backend.open(Variant(target=target, device="cpu", dtype="auto"))
    takes = model.takes()
    any_batch = any(taken.dims and isinstance(taken.dims[0], str) for taken in takes)
    given = sample.reorder([taken.name for taken in takes]).arrays if sample else None
    own = next((array.shape[0] for array in given if array.ndim), 1) if given else model.own_batch()
    batch = batch or own or 1

    def inputs_of(size: int) -> list[Array]:
        if given:
            return of_files.rebatch(given, batch, size)
        try:
            return model.input_arrays(size)
        except UsageError as error:
            if not error.next.startswith("--shape"):
                raise
            ways = "--inputs data.py:samples   gives inputs of the sizes that count"
            raise UsageError(error.what, why=error.why, next=ways) from error

    first = inputs_of(batch)
    names = model.gives()
    shapes = [f"{each.name}: {of_files.words(array)}" for each, array in zip(takes, first, strict=True)]
    return Reference(
        run=model.outputs,
        inputs_of=inputs_of,
        batch=batch,
        any_batch=any_batch,
        varies=[bool(taken.dims) and isinstance(taken.dims[0], str) for taken in takes],
        keywords=[taken.name for taken in takes],
        outputs=lambda: (None if len(names) == 1 else names, types_of(model.outputs(first))),
        tables=_tables(model.outputs, first, TABLES),
        facts=facts_of_machine() | {"onnx_file", "on_onnxruntime", "other_runtime"},
        threads=0,
        types=types_of(first),
        inputs=", ".join(shapes),
        origin="random: floats from N(0, 1), whole numbers 0 and 1",
        libraries=model.libraries(),
    )


def _of_weights(module: Any) -> set[str]:
    """`denormals` if so many weights are below float32's normal range that a call is slow on them."""
    floats = [tensor for tensor in tensors(module.state_dict()) if tensor.is_floating_point()]
    elements = sum(each.numel() for each in floats)
    denormal = sum(int(((each != 0) & (each.abs() < SMALLEST_NORMAL)).sum()) for each in floats)
    return {"denormals"} if denormal > MATTERS * elements else set()
