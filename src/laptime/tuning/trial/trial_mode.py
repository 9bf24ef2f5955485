"""What a trial does with the script's loop: race (`race_runner`), diagnose (`diagnosis.ablation_runner`) or
gate (`numerics.capture`). `process.MODES` has the class of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class TrialMode:
    """Hears of everything that the loop does, and may stand in between. This one lets everything through.

    All methods are called on the thread of the loop. `hooks.loop_hooks.LoopHooks.stop`, called at a boundary,
    ends the script.
    """

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """A loader's iterator is asked for a batch; returns the batch, usually `take()`, whose StopIteration
        is passed on."""
        return take()

    def forward(self, module: Any, inputs: Any) -> None:
        """An outermost module is about to be called with (arguments, keywords), gradients enabled or not."""

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """A backward pass from `root` (a tensor, or what torch.autograd.backward was given); usually
        `run()`."""
        return run()

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """An optimizer's step; usually `run()`."""
        return run()

    def zero_grad(self, owner: Any, *, set_to_none: bool) -> None:
        """An optimizer or a module is about to zero its gradients."""

    def clip(self, norm: Any) -> None:
        """Gradients are about to be clipped from this norm, a tensor; None where it is not known."""

    def boundary(self, *, ended: bool, begins: bool) -> None:
        """Between two steps, before the next fetch. ended: a whole step lies behind; begins: another one
        follows."""

    def finish(self) -> None:
        """The script has ended, by us or by itself: write what is known. Called once, whatever happens."""
