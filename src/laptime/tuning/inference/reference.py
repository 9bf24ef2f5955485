"""The model as it is, ready to be called: what a survey looks at, and what all folders are held against.

`of_torch` is a target in PyTorch, `of_file` an ONNX file, run by ONNX Runtime with its defaults.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laptime.backends import onnxruntime as backend
from laptime.backends._onnx import inputs as of_files
from laptime.backends._onnx.model import FileModel
from laptime.backends.torch import place
from laptime.backends.torch.tensors import arrays, tensors
from laptime.kit import system_files
from laptime.kit.errors import UsageError
from laptime.measure.recorded_calls import Array, Run
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.tuning.catalogue import allocator, huge_pages
from laptime.tuning.catalogue.flush_denormal import MATTERS, SMALLEST_NORMAL
from laptime.tuning.inference.arm_process import types_of
from laptime.tuning.inference.draft import by_position, opened, plain, structure_of
from laptime.tuning.inference.samples import Sample
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.trial.facts import by_capability

if TYPE_CHECKING:
    import torch

_INSTRUCTIONS = (
    *("amx_int8", "amx_bf16", "amx_fp16", "avx512_fp16", "avx512_bf16", "avx512_vnni", "avx_vnni"),
    *("avx512f", "avx2"),
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A target that takes arrays and gives arrays.

    Attributes:
        run: a call. inputs_of: inputs of a call of so many items.
        batch: items in a call. any_batch: it takes other numbers, too; varies: by input, see `Draft`.
        keywords: names of its inputs. outputs: see `Draft.outputs` and `types`; may raise `Refused`.
        tables: by input, sizes of tables that its whole numbers may be places in, see `beyond`.
        facts: of `tuning.loop_profile.FACT_SENTENCES`. threads: in a call; 0: the runtime's own choice.
        words: its inputs in words. origin: where they come from. libraries: versions.
        device: where it runs, as torch names it. devices: what is known of it.
    """

    run: Run
    inputs_of: Callable[[int], list[Array]]
    batch: int
    any_batch: bool
    varies: Sequence[bool]
    keywords: Sequence[str]
    outputs: Callable[[], tuple[list[str] | None, list[str]]]
    tables: Sequence[Sequence[int]] = ()
    facts: frozenset[str]
    threads: int
    words: str
    origin: str
    libraries: dict[str, str]
    device: str = "cpu"
    devices: Sequence[Device] = ()


def facts_of_machine() -> frozenset[str]:
    """What the machine has for any model."""
    facts = {"cpu"} | compilers()
    if {"avx512_bf16", "amx_bf16"} & set(instructions()):
        facts.add("bf16")
    if {"avx512_fp16", "amx_fp16"} & set(instructions()):
        facts.add("fp16")
    if not allocator.why_not(LoopProfile()):
        facts.add("glibc_malloc")
    if not huge_pages.why_not(LoopProfile()):
        facts.add("huge_pages_on_request")
    return frozenset(facts)


def compilers() -> set[str]:
    """`gcc` where there is a C++ compiler."""
    return {"gcc"} if shutil.which("g++") or shutil.which("clang++") else set()


def instructions() -> list[str]:
    """What the CPU has for vectors, widest first."""
    flags = set(
        (system_files.text(Path("/proc/cpuinfo")) or "").partition("\nflags")[2].partition("\n")[0].split()
    )
    return [name for name in _INSTRUCTIONS if name in flags]


def device_of(name: str) -> str:
    """The device of a name; "auto" is the first CUDA device, else the CPU: folders run on nothing else."""
    if name != "auto":
        return name
    return next((each for each in place.present() if each.startswith("cuda")), "cpu")


def facts_of_cuda(device: torch.device) -> frozenset[str]:
    """What a CUDA device has for any model: facts of `tuning.loop_profile.FACT_SENTENCES`."""
    import torch

    fast = {"bf16", "fp16"} if torch.version.hip else by_capability(torch.cuda.get_device_capability(device))
    return frozenset({"cuda"} | fast | compilers())


_KINDS = {"conv": "_ConvNd", "linear": "Linear", "batchnorm": "_BatchNorm", "attention": "MultiheadAttention"}


def of_torch(target: str, batch: int, sample: Sample | None, device: str = "cpu") -> Reference:
    """The target, loaded.

    Args:
        batch: items in a call; 0: as the inputs were given. sample: inputs in place of the target's own.
        device: as `laptime bench` names it; "auto" is a CUDA device where there is one, else the CPU.

    Raises:
        LaptimeError: it cannot be loaded.
    """
    import torch

    from laptime.backends._onnx.exporting import call_of

    where = place.resolve(device_of(device))
    model = opened(target, sample, str(where))
    batch = batch or model.own_batch() or 1
    module, inputs = by_position(model, batch)
    any_batch = model.batch_leads()

    def run(given: list[Array]) -> list[Array]:
        with torch.no_grad():
            return arrays(module(*(torch.from_numpy(each).to(where) for each in given)))

    def outputs() -> tuple[list[str] | None, list[str]]:
        with torch.no_grad():
            made = plain(module(*inputs))
        return structure_of(made), types_of(made)

    told = model.inputs_of(batch)
    return Reference(
        run=run,
        inputs_of=lambda size: arrays(by_position(model, size)[1]),
        batch=batch,
        any_batch=any_batch,
        varies=[bool(any_batch and each.ndim and each.shape[0] == batch) for each in inputs],
        keywords=list(call_of(model.workload(batch))[2]),
        outputs=outputs,
        tables=[_tables(module, each) for each in inputs],
        facts=(facts_of_cuda(where) if where.type == "cuda" else facts_of_machine() | _of_weights(module))
        | _kinds(module),
        threads=torch.get_num_threads(),
        words=told["shapes"],
        origin=told["origin"],
        libraries=model.libraries(),
        device=str(where),
        devices=model.devices() if where.type == "cuda" else (),
    )


def _kinds(module: Any) -> set[str]:
    classes = {each.__name__ for part in module.modules() for each in type(part).__mro__}
    return {fact for fact, name in _KINDS.items() if name in classes}


def _tables(module: Any, tensor: torch.Tensor) -> list[int]:
    """Sizes of the module's tables, largest first, where a tensor may hold places in one; a mask does not."""
    if tensor.is_floating_point() or not tensor.numel() or int(tensor.max()) < 2:
        return []
    sizes = {int(part.num_embeddings) for part in module.modules() if hasattr(part, "num_embeddings")}
    return sorted(sizes, reverse=True)


def _of_weights(module: Any) -> set[str]:
    """`denormals` where so many weights are below float32's normal range that a call is slow on them."""
    floats = [each for each in tensors(module.state_dict()) if each.is_floating_point()]
    elements = sum(each.numel() for each in floats)
    denormal = sum(int(((each != 0) & (each.abs() < SMALLEST_NORMAL)).sum()) for each in floats)
    return {"denormals"} if denormal > MATTERS * elements else set()


FACTS = frozenset({"onnx_file", "on_onnxruntime", "other_runtime"})


def of_file(target: str, batch: int, sample: Sample | None, device: str = "cpu") -> Reference:
    """The file, loaded.

    Args:
        batch: items in a call; 0: 1, or what the file is made for. sample: inputs in place of random ones.
        device: "cpu" or "auto", which is the CPU: an accelerator is refused before (`request.check`).

    Raises:
        LaptimeError: it cannot be loaded, or leaves sizes open that only samples can tell.
    """
    model = backend.open(Variant(target=target, device="cpu", dtype="auto"))
    takes = model.takes()
    any_batch = any(each.dims and isinstance(each.dims[0], str) for each in takes)
    given = sample.ordered([each.name for each in takes]).arrays if sample else None
    batch = batch or (_items(given, 1) if given else model.own_batch()) or 1

    def inputs_of(size: int) -> list[Array]:
        return of_files.rebatched(given, batch, size) if given else _random(model, size)

    first = inputs_of(batch)
    names = model.gives()
    shapes = [f"{each.name}: {of_files.words(array)}" for each, array in zip(takes, first, strict=True)]
    return Reference(
        run=model.outputs,
        inputs_of=inputs_of,
        batch=batch,
        any_batch=any_batch,
        varies=[bool(each.dims) and isinstance(each.dims[0], str) for each in takes],
        keywords=[each.name for each in takes],
        outputs=lambda: (None if len(names) == 1 else names, types_of(model.outputs(first))),
        facts=facts_of_machine() | FACTS,
        threads=0,
        words=", ".join(shapes),
        origin="random: floats from N(0, 1), whole numbers 0 and 1",
        libraries=model.libraries(),
    )


def _items(given: list[Array], default: int) -> int:
    return next((array.shape[0] for array in given if array.ndim), default)


def _random(model: FileModel, size: int) -> list[Array]:
    try:
        return model.input_arrays(size)
    except UsageError as error:
        if not error.next.startswith("--shape"):
            raise
        raise UsageError(
            error.what, why=error.why, next="--inputs data.py:samples   gives inputs of the sizes that count"
        ) from error
