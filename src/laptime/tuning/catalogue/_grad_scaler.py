"""Loss scaling for a loop that knows nothing of it, by torch's own GradScaler.

Gradients are unscaled when a backward pass ends, not when the optimizer steps: clipping and logging, which
the script does in between, see the true ones. Before the next micro-batch of an accumulation they are
scaled again; the scale is a power of two, so both are exact. The scale is updated before the first backward
pass after a step, so that several optimizers of one loss step at the same scale.

Source: torch.amp.GradScaler; "Automatic Mixed Precision examples", sections on clipping, accumulation and
several optimizers.
"""

from collections.abc import Callable
from typing import Any


class _Stepping:
    """An optimizer as GradScaler wants it: the parameters, and a step that is ours to run."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.step: Callable[[], Any] = optimizer.step

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups


class Scaling:
    """A GradScaler between a loop's backward passes and its optimizers' steps."""

    def __init__(self, scaler: Any) -> None:
        self.scaler = scaler
        self.optimizers: list[Any] = []
        self._unscaled: dict[int, _Stepping] = {}
        self._kept: list[_Stepping] = []  # until the update: the scaler knows them by id
        self._has_stepped = False

    def meet(self, optimizer: Any) -> None:
        """Its gradients will be scaled."""
        self.optimizers.append(optimizer)

    def scale(self, loss: Any) -> Any:
        """The loss times the scale; what is still in the gradients is scaled, too."""
        if self._has_stepped:
            self.scaler.update()
            self._has_stepped = False
            self._kept.clear()
        scaled = self.scaler.scale(loss)
        for optimizer in self.optimizers:
            if self._unscaled.pop(id(optimizer), None) is not None:
                _multiply(_gradients(optimizer), self.scaler.get_scale())
        scaled.register_hook(self._at_the_end)
        return scaled

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """Run, unless there is an inf or a NaN in the gradients."""
        stepping = self._unscaled.pop(id(optimizer), None)
        if stepping is None:  # no backward pass of ours since the last step, or none has reached it
            return run()
        stepping.step = run
        self._has_stepped = True
        return self.scaler.step(stepping)

    def _at_the_end(self, gradient: Any) -> None:
        """Called as a backward pass begins; DistributedDataParallel waits for its end in the same way."""
        from torch.autograd import Variable

        engine: Any = Variable._execution_engine
        engine.queue_callback(self._unscale)

    def _unscale(self) -> None:
        for optimizer in self.optimizers:
            if id(optimizer) in self._unscaled or not _gradients(optimizer):
                continue
            stepping = _Stepping(optimizer)
            self._kept.append(stepping)
            self.scaler.unscale_(stepping)
            self._unscaled[id(optimizer)] = stepping


def _gradients(optimizer: Any) -> list[Any]:
    gradients = [parameter.grad for group in optimizer.param_groups for parameter in group["params"]]
    return [gradient for gradient in gradients if gradient is not None]


def _multiply(gradients: list[Any], factor: float) -> None:
    import torch

    with torch.no_grad():
        for gradient in gradients:
            gradient.mul_(factor)
