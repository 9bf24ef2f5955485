"""Exports a PyTorch target to ONNX, in a process of its own: `python -m laptime.backends._onnx.exporting`.

A process of its own, so that what is measured later shares no memory and no thread pool with PyTorch. Beside
the model lie the inputs it was traced with, others, and what PyTorch made of them: outputs can be compared.

    model.onnx     (and model.onnx.data, from 1.5 GB on)
    calls.npz      inputs and outputs (`measure.recorded_calls`), floats of half precision as float32
    about.json     opset, batch, versions, seconds, counts"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from laptime.backends import torch as torch_backend
from laptime.backends._onnx import content, versions
from laptime.backends._shared import torch
from laptime.backends.torch.tensors import arrays, copy_inputs, put_arrays, tensors
from laptime.kit.errors import LaptimeError, UserCodeError
from laptime.measure.recorded_calls import RecordedCalls, other_batch, record
from laptime.records.plan import Variant

if TYPE_CHECKING:
    from laptime.backends.torch.model import TorchModel
    from laptime.backends.torch.workload import TorchWorkload

TRACED = 2
"""Batch that a model is traced with at least if any is to do: tracers take a size of 1 for a constant."""
LARGE = 1_500_000_000  # bytes of weights from which on they get a file of their own; protobuf ends at 2 GiB


def export(variant: Variant, *, opset: int, batch: int | None, root: Path) -> Path:
    """The folder with the exported model; nothing is exported when the same one is there. batch: the one
    batch size wanted; None wants any, if the model can be traced so. root: the folder to put it in.
    Raises UserCodeError: PyTorch cannot export it. LaptimeError: it cannot be loaded."""
    evaluated = {"mode": "eval"}
    plain = Variant(target=variant.target, dtype=variant.dtype, seed=variant.seed, options=evaluated)
    model = torch_backend.open(plain)
    own = model.own_batch()
    # Where the batch is another dimension than the first, or not known, each size is exported for itself.
    any_wanted = batch is None and model.batch_leads()
    work = model.workload(batch or (max(TRACED, own or 1) if any_wanted else own or 1))
    module, args, kwargs = call_of(work)
    inputs = tensors([*args, *kwargs.values()])
    settings = {"opset": opset, "batch": batch, "target": variant.target, "dtype": variant.dtype}
    folder = root / f"onnx-{content(module, inputs, settings)[:24]}"
    if (folder / "about.json").is_file():
        return folder
    started = time.perf_counter()
    draft = Path(tempfile.mkdtemp(prefix=".onnx-", dir=root))
    try:
        with torch.no_grad():
            any_size = {0: "batch"} if any_wanted else {}
            sizes = [any_size if each.ndim and each.shape[0] == work.batch else {} for each in inputs]
            program = trace_program(module, args, kwargs, opset=opset, tries=[sizes])
            takes = program.model.graph.inputs
            _check(inputs, takes)
        held = sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])
        program.save(str(draft / "model.onnx"), external_data=held > LARGE)
        any_batch = not any(isinstance(taken.shape[0], int) for taken in takes if taken.shape)
        batches = [work.batch, *([other_batch(work.batch)] if any_batch and any_wanted else [])]
        _record(model, module, (args, kwargs), batches).save(draft / "calls.npz")
        series, receipt = model.count(work.batch)
        about = {
            "batch": None if any_batch and any_wanted else work.batch,
            "traced": work.batch,
            "own": own,
            "batch_is": model.inputs_of(work.batch)["batch_is"],
            "opset": opset,
            "versions": versions(),
            "seconds": time.perf_counter() - started,
            "inputs": [taken.name for taken in takes],
            "counts": {"series": {one.metric.tag: one.samples[0] for one in series}, "receipt": receipt},
            "origin": model.facts()["inputs"]["origin"],
        }
        (draft / "about.json").write_text(json.dumps(about, default=str), encoding="utf-8")
        try:
            draft.rename(folder)
        except OSError:
            if not (folder / "about.json").is_file():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def call_of(work: TorchWorkload) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """The call of a workload: a module, and its arguments by position and by name."""
    assert isinstance(work.eager, partial)
    module = _module(work.eager.func)
    return module, *_arguments(module, work.eager)


def _module(call: Any) -> torch.nn.Module:
    """The callable as a module; one around it that holds its parts if it is none itself."""
    from laptime.backends.torch.setup import modules_in

    if isinstance(call, torch.nn.Module):
        return call

    class Calls(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = torch.nn.ModuleList(modules_in(call))

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return call(*args, **kwargs)

    return Calls().eval()


def _arguments(module: Any, call: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    assert isinstance(call, partial)
    ordered = [name for name in inspect.signature(module.forward).parameters if name in call.keywords]
    return call.args, {name: call.keywords[name] for name in dict.fromkeys([*ordered, *call.keywords])}


def _record(model: TorchModel, module: Any, like: Any, sizes: list[int]) -> RecordedCalls:
    """Record the module's outputs for its inputs and others, in the order in which the file takes them."""

    def run(given: list[Any]) -> list[Any]:
        args, kwargs = put_arrays(like, given)
        with torch.no_grad():
            return arrays(module(*args, **kwargs))

    return record(run, lambda size: arrays(_arguments(module, model.workload(size).eager)), sizes)


def trace_program(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    opset: int,
    tries: Sequence[Sequence[dict[int, str]]],
) -> Any:
    """The ONNX program of the first of `tries` that is possible (by input, names of dimensions that may have
    another size), else with the sizes as they are. Each try has tensors of its own: tracing marks open sizes
    on them, and what failed would fail again."""
    export: Any = partial(torch.onnx.export, module, opset_version=opset, dynamo=True, verbose=False)
    tracing: Any = torch.export
    for named in (sizes for index, sizes in enumerate(tries) if any(sizes) and sizes not in tries[:index]):
        (given, keywords), open_sizes = copy_inputs((args, kwargs)), tracing.ShapesCollection()
        for tensor, names in zip(tensors([*given, *keywords.values()]), named, strict=True):
            if names:
                open_sizes[tensor] = names
        try:
            shapes = open_sizes.dynamic_shapes(module, given, keywords)
            return export(given, kwargs=keywords, dynamic_shapes=shapes)
        except Exception as error:  # tried again with fewer open sizes
            sys.stderr.write(f"not for any size: {error}\n")
    try:
        return export(args, kwargs=kwargs)
    except Exception as error:
        deepest: BaseException = error
        while deepest.__cause__ is not None:
            deepest = deepest.__cause__
        lines = [line.strip() for line in str(deepest).splitlines() if line.strip()]
        raise UserCodeError(
            f"PyTorch cannot export {type(module).__name__} to ONNX",
            why=f"{type(error).__name__}: {lines[0][:300] if lines else type(deepest).__name__}",
            next="python -c 'import torch; help(torch.onnx.export)'   says what a model must not do",
        ) from error


def _check(inputs: list[torch.Tensor], takes: Any) -> None:
    def fits(tensor: torch.Tensor, each: Any) -> bool:
        sizes = list(each.shape or ())
        return len(sizes) == tensor.ndim and all(
            size == now for size, now in zip(sizes, tensor.shape, strict=True) if isinstance(size, int)
        )

    if len(inputs) != len(takes) or not all(map(fits, inputs, takes)):
        raise UserCodeError(
            "the exported model takes other inputs than the one in PyTorch",
            why=f"{len(inputs)} tensors went in, it takes {', '.join(e.name for e in takes) or 'none'}",
            next="pass tensors only, as arguments of forward",
        )


def main() -> None:
    request = json.load(sys.stdin)
    os.dup2(2, 1)  # what a framework prints is no answer
    variant = msgspec.convert(request["variant"], Variant)
    answer: dict[str, Any]
    try:
        folder = export(variant, opset=request["opset"], batch=request["batch"], root=Path(request["root"]))
        answer = {"folder": str(folder)}
    except LaptimeError as error:
        answer = {"error": type(error).__name__, "what": error.what, "why": error.why, "next": error.next}
    Path(request["answer"]).write_text(json.dumps(answer), encoding="utf-8")
    sys.stderr.flush()
    os._exit(0)  # taking a framework apart takes a second


if __name__ == "__main__":
    main()
