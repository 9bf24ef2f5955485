"""Mixed precision in float16 with loss scaling: for devices that are fast in float16 and not in bfloat16.

While it is raced, gradients are unscaled as soon as the backward pass ends, so that the script's clipping
sees the true ones; the edited script calls `unscale_` behind the backward call where it clips.

Source: "Automatic Mixed Precision", torch.amp; Micikevicius et al., Mixed Precision Training, 2018.
Lies when: many steps are skipped for overflowing gradients; skipped steps are fast steps."""

from collections.abc import Callable
from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import CannotEdit, LoopProfile, Optimization, Options


def propose(loop_profile: LoopProfile) -> list[Options]:
    """`clips` tells the edit that gradients are looked at before the step."""
    options: Options = {"clips": True} if "clipping" in loop_profile.facts else {}
    if "accumulation" in loop_profile.facts and options:
        options["accumulates"] = True
    return [options]


def apply(loop: Any, options: Options) -> None:
    """Autocast around the forward part; the loss scaled; steps with inf or NaN in the gradients left out."""
    import torch

    scaling = Scaling(torch.amp.GradScaler(loop.device or "cuda"))
    loop.optimizers(scaling.meet)
    loop.forward(lambda: torch.autocast(loop.device or "cuda", dtype=torch.float16))
    loop.backward(scaling.scale)
    loop.step(scaling.step)


def edit(script: Any, options: Options) -> None:
    if by_trainer(script, hf={"fp16": "True"}, lightning={"precision": '"16-mixed"'}):
        return
    if options.get("accumulates"):
        raise CannotEdit(
            "scaler.unscale_(optimizer) is to be put before the clipping by hand: not every backward "
            "call is followed by it"
        )
    # One that is on elsewhere, too: the patch has to be right on another machine.
    scaler = 'scaler = torch.amp.GradScaler("cuda" if torch.cuda.is_available() else "cpu")'
    script.define(scaler, "import torch")
    script.around_forward("with torch.autocast(device_type={device!r}, dtype=torch.float16):")
    unscale = "\nscaler.unscale_({optimizer})" if options.get("clips") else ""
    script.replace_backward("scaler.scale({loss}).backward()" + unscale)
    script.replace_step("scaler.step({optimizer})\nscaler.update()")


# Loss scaling for a loop that knows nothing of it, by torch's own GradScaler.


class _Stepping:
    """An optimizer as GradScaler wants it: the parameters, and a step that is ours to run."""

    def __init__(self, optimizer: Any) -> None:
        self.param_groups, self.step = optimizer.param_groups, optimizer.step


class Scaling:
    """A GradScaler between a loop's backward passes and its optimizers' steps.

    Gradients are unscaled when a backward pass ends, not when the optimizer steps: clipping and logging,
    which the script does in between, see the true ones. Before the next micro-batch of an accumulation they
    are scaled again; the scale is a power of two, so both are exact. The scale is updated before the first
    backward pass after a step, so that several optimizers of one loss step at the same scale.

    Source: torch.amp.GradScaler; "Automatic Mixed Precision examples", sections on clipping, accumulation and
    several optimizers.
    """

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
                for gradient in _gradients(optimizer):
                    gradient.detach().mul_(self.scaler.get_scale())
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


OPTIMIZATION = Optimization(
    title="mixed precision in float16, loss scaled",
    numerics="precision",
    # As of bfloat16, less what checking and unscaling the gradients costs.
    saves={"forward": 0.7, "backward": 0.7},
    needs=frozenset({"cuda", "fp16", "!autocast", "!grad_scaler", "!closure"}),
    gives=frozenset({"autocast", "grad_scaler"}),
    propose=propose,
    switch=r"((use|enable)_)?(amp|fp16|float16|half|mixed_precision|(amp_)?dtype|precision)",
    switch_values=("float16", "fp16", "16-mixed"),
    apply=apply,
    edit=edit,
)
