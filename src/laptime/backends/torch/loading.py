"""A target, or an object of this process, loaded and made ready as the variant asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laptime.backends._by_batch import not_a_model, unknown_dtype
from laptime.backends.torch import language, place, tensors
from laptime.backends.torch.errors import translate
from laptime.backends.torch.model import CudaModel, TorchModel
from laptime.backends.torch.setup import Setup, modules_in, seed_all
from laptime.backends.torch.training import CudaTrainingModel, TrainingModel
from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.records.plan import Variant
from laptime.targets import Program, parse

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "float16", "float64")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def load(variant: Variant, inputs: Any = None) -> TorchModel:
    """The target of a variant, built and made ready. See `laptime.backends.torch.open`.

    Args:
        inputs: of a call, in place of those that the target has; None: its own.
    """
    _check(variant)
    device = place.resolve(variant.device)
    recipe = parse(variant.target)
    floats = "float32" if variant.train else variant.dtype  # a step in another dtype is mixed precision
    setup = Setup(variant, device, floats=floats, packages=recipe.packages)
    facts = {"source": recipe.source, "sha256": recipe.sha256}
    try:
        seed_all(variant.seed)
        rebuild = recipe.build if recipe.per_batch() else None
        program = language.phase_of(recipe.build(1), variant.options, device)
        if inputs is not None:
            program, rebuild = replace(program, inputs=inputs, origin="given"), None
        ready = language.with_bytes(setup.ready(program))
        if inputs is not None:
            ready = replace(
                ready, make=None
            )  # not before: statistics of batch norms come from inputs it makes
        return _model(setup, ready, facts, None if "phase" in variant.options else rebuild)
    except Exception as error:
        setup.undo()
        raise translate(error, doing=f"{variant.target} could not be loaded") from error


def adopt(subject: Any, inputs: Any, variant: Variant) -> TorchModel:
    """An object of this process, made ready. See `laptime.backends.torch.open_object`."""
    _check(variant)
    if not callable(subject):
        raise not_a_model(subject, "a torch.nn.Module")
    if variant.train:
        raise UsageError(
            "an object of this process cannot be trained here",
            why="its weights would change",
            next="name it as file.py:function: laptime bench --train file.py:function",
        )
    device = home_of(subject, inputs) if variant.device == "auto" else place.resolve(variant.device)
    setup = Setup(variant, device, floats=variant.dtype, packages=())
    make = inputs if callable(inputs) and not tensors.is_tensor(inputs) else None
    given = None if make else inputs
    origin: Any = "none" if inputs is None else "given"
    program = Program(call=subject, inputs=given, make=make, origin=origin)
    try:
        program = setup.ready(program, is_users=True)
    except Exception as error:
        setup.undo()
        raise translate(error, doing=f"{variant.target} could not be made ready") from error
    return _model(setup, program, {"source": "in memory"}, None)


def _model(
    setup: Setup, program: Program, facts: dict[str, Any], rebuild: Callable[[int], Program] | None
) -> TorchModel:
    is_cuda = setup.device.type == "cuda"
    kind: type[TorchModel] = CudaModel if is_cuda else TorchModel
    if setup.variant.train:
        kind = CudaTrainingModel if is_cuda else TrainingModel
    return kind(setup, program, facts=facts, rebuild=rebuild)


def _check(variant: Variant) -> None:
    if variant.dtype not in (*DTYPES, "auto"):
        raise unknown_dtype(variant.dtype, DTYPES)
    if variant.compile and variant.compile not in MODES:
        raise UsageError(
            f"torch.compile has no mode {variant.compile!r}",
            why=f"known: {', '.join(MODES)}",
            next=f"--compile {closest(variant.compile, MODES) or 'default'}",
        )


def home_of(subject: Any, inputs: Any) -> torch.device:
    """The device that a model of this process is on, or its inputs."""
    import torch

    for module in modules_in(subject):
        for tensor in (*module.parameters(), *module.buffers()):
            return tensor.device
    for tensor in tensors.tensors(inputs):
        return tensor.device
    return torch.device("cpu")
