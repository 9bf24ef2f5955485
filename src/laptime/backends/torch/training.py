"""Full training steps on made-up data: zero gradients, forward, loss, backward, optimizer.

Every step sees the same batch. The learning rate is so small that the weights hardly move, and the
thousandth step does the work of the first.
Speed does not depend on it. In a dtype other than float32 a step is what people mean by mixed precision:
weights and optimizer in float32, the forward pass under autocast, for float16 a loss scaler, too.

Lies when: real data has to be read and copied (`laptime profile script.py` sees that), or gradients are
reduced over several devices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from laptime.backends._shared import torch
from laptime.backends.torch import count, place, tensors
from laptime.backends.torch.model import CudaModel, TorchModel
from laptime.backends.torch.setup import Setup, modules_in
from laptime.kit.errors import TargetError
from laptime.measure.first_call import finite
from laptime.records.series import Series
from laptime.targets import Program

LEARNING_RATE = 1e-6
STEP = "zero gradients, forward, loss, backward, optimizer"
LOSS = (
    "the output if it is one number; else, summed over all floating-point outputs, cross-entropy against "
    "random labels over the last dimension of (B, C) and (B, T, C), and the mean of squares of any other"
)


class TrainingModel(TorchModel):
    """A target in training mode: one call is one step."""

    def __init__(self, setup: Setup, program: Program, **origin: Any) -> None:
        super().__init__(setup, program, **origin)
        self._step = Step(program, setup)

    def _callers(self, program: Program) -> tuple[Callable[..., Any], Callable[..., Any]]:
        step = self._step if program is self._program else Step(program, self._setup)
        return partial(step, self._setup.compile_call(program.call)), partial(step, program.call)

    def scope(self) -> AbstractContextManager[None]:
        return place.entered(self._device, torch.enable_grad())

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "training": {"step": STEP, "loss": LOSS, **self._step.facts()}}

    def count(self, batch: int) -> tuple[list[Series], dict[str, Any]]:
        """Parameters; MACs and FLOPs of one whole step, counted as it runs: no rule of thumb."""
        work = self.workload(batch)
        series, receipt = count.count(self.modules(), work.eager, batch=batch, grad=True)
        return series, {**receipt, "step": STEP}

    def check_outputs(self, batch: int) -> dict[str, Any]:
        loss = self.output(batch)
        return {"finite": finite(loss), "shape": f"loss {float(loss):.4g}"}


class CudaTrainingModel(CudaModel, TrainingModel):
    """The same on a CUDA device."""


class Step:
    """One training step after another; owns the optimizer and its state.
    Raises TargetError: nothing in the program can be trained."""

    def __init__(self, program: Program, setup: Setup) -> None:
        target = setup.variant.target
        if program.facts.get("family") == "detection":
            raise TargetError(
                f"{target} cannot be trained on made-up data",
                why="detection models need boxes and labels to learn from",
                next="name a file.py:function whose model takes them as inputs and returns its loss",
            )
        modules = modules_in(program.call)
        if not any(p.requires_grad for module in modules for p in module.parameters()):
            why = "no parameter requires gradients" if modules else "laptime found no torch module in it"
            raise TargetError(f"{target} has nothing to train", why=why, next="leave --train out")
        variant = setup.variant
        parameters = [p for m in modules for p in m.parameters() if p.requires_grad]
        self._optimizer = _optimizer(variant.train, list(dict.fromkeys(parameters)))
        is_mixed = variant.dtype not in ("float32", "auto")
        self._precision = f"autocast to {variant.dtype}, weights in float32" if is_mixed else "float32"
        self._autocast = partial(
            torch.autocast,
            setup.device.type,
            dtype=getattr(torch, variant.dtype) if is_mixed else torch.bfloat16,
            enabled=is_mixed,
        )
        self._scaler = torch.amp.GradScaler(setup.device.type, enabled=variant.dtype == "float16")
        self._loss = Loss(variant.seed)

    def __call__(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self._optimizer.zero_grad(set_to_none=True)
        with self._autocast():
            loss = self._loss(call(*args, **kwargs))
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call, unused-ignore]
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return loss.detach()

    def facts(self) -> dict[str, Any]:
        settings = {
            name: value
            for name, value in self._optimizer.defaults.items()
            if isinstance(value, int | float | str | list | tuple) and not isinstance(value, bool)
        }
        return {
            "optimizer": type(self._optimizer).__name__,
            "settings": settings,
            "precision": self._precision,
        }


class Loss:
    """A loss for whatever a model returns: see LOSS. Labels are drawn once a shape, from the seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._labels: dict[tuple[int, ...], torch.Tensor] = {}

    def __call__(self, output: Any) -> torch.Tensor:
        """One number to differentiate.
        Raises TargetError: there is nothing in the output that depends on the weights."""
        floats = [t for t in tensors.tensors(output) if t.is_floating_point() and t.requires_grad]
        if not floats:
            raise TargetError(
                "there is nothing to train on",
                why=f"the model returned {tensors.words(output)}, and nothing in it depends on its weights",
                next="return a loss, or outputs with gradients, from the model's forward()",
            )
        scalar = next((t for t in floats if t.ndim == 0), None)
        if scalar is not None:
            return scalar
        first, *others = (self._of(t) for t in floats)
        return sum(others, first)

    def _of(self, output: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import cross_entropy

        if output.ndim not in (2, 3) or output.shape[-1] < 2:
            return output.float().square().mean()
        shape = tuple(output.shape)
        if shape not in self._labels:
            source = torch.Generator().manual_seed(self._seed)
            drawn = torch.randint(shape[-1], (output.flatten(0, -2).shape[0],), generator=source)
            self._labels[shape] = drawn.to(output.device)
        return cross_entropy(output.flatten(0, -2).float(), self._labels[shape])


def _optimizer(name: str, parameters: list[Any]) -> torch.optim.Optimizer:
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=LEARNING_RATE)
    return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9)
