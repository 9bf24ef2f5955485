"""What one change has attached to the loop: a `loop.Loop`, the callbacks by kind, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from laptime.tuning.trial.loop import Call, CannotApply, Undo

KINDS = (
    "loader",
    "worker",
    "dataset",
    "optimizer",
    "optimizers",
    "model",
    "parallel",
    "parallels",
    "batch",
    "forward",
    "backward",
    "step",
    "zero_grad",
)


class Attached:
    """Implements `loop.Loop` for one change.

    Attributes:
        callbacks: by kind, in the order in which they were attached. `points` calls them.
        device: type of the device that the trained model is on; "" before it is known.
    """

    def __init__(
        self,
        *,
        live: bool = False,
        models: Iterable[Any] = (),
        optimizers: Iterable[Any] = (),
        parallels: Iterable[Any] = (),
        device: str = "",
    ) -> None:
        """For a loop that has these objects already; `live`: put on between two steps."""
        self.callbacks: dict[str, list[Callable[..., Any]]] = {kind: [] for kind in KINDS}
        self.device = device
        self._live = live
        self._known = {
            "model": list(models),
            "optimizers": list(optimizers),
            "parallels": list(parallels),
        }
        self._undos: list[Undo] = []

    # What changes call.

    def process(self, do: Callable[[], Undo | None]) -> None:
        """Now; torch is there whenever a change is applied."""
        self._keep(do())

    def loader(self, rewrite: Callable[[Call], None]) -> None:
        """Before a DataLoader of the script is made."""
        self._from_start("loader", rewrite)

    def worker(self, start: Callable[[int], None]) -> None:
        """In every loader worker that is started."""
        self._from_start("worker", start)

    def dataset(self, wrap: Callable[[Any], Any]) -> None:
        """The dataset of every map-style DataLoader."""
        self._from_start("dataset", wrap)

    def optimizer(self, rewrite: Callable[[Call], None]) -> None:
        """Before an optimizer is made."""
        self._from_start("optimizer", rewrite)

    def parallel(self, rewrite: Callable[[Call], None]) -> None:
        """Before a DistributedDataParallel is made; refused when one is there already."""
        if self._known["parallels"]:
            self.refuse("DistributedDataParallel is there already")
        self.callbacks["parallel"].append(rewrite)

    def optimizers(self, do: Callable[[Any], Undo | None]) -> None:
        """With every optimizer."""
        self._with_each("optimizers", do)

    def model(self, do: Callable[[Any], Undo | None]) -> None:
        """With every trained model."""
        self._with_each("model", do)

    def parallels(self, do: Callable[[Any], Undo | None]) -> None:
        """With every DistributedDataParallel."""
        self._with_each("parallels", do)

    def batch(self, convert: Callable[[Any], Any]) -> None:
        """What a training loader gives."""
        self.callbacks["batch"].append(convert)

    def forward(self, context: Callable[[], AbstractContextManager[Any]]) -> None:
        """Around the forward part of each step."""
        self.callbacks["forward"].append(context)

    def backward(self, scale: Callable[[Any], Any]) -> None:
        """The tensor that a backward pass starts from."""
        self.callbacks["backward"].append(scale)

    def step(self, around: Callable[[Any, Callable[[], Any]], Any]) -> None:
        """In place of `optimizer.step()`."""
        self.callbacks["step"].append(around)

    def zero_grad(self, rewrite: Callable[[dict[str, Any]], None]) -> None:
        """Keyword arguments of every zero_grad."""
        self.callbacks["zero_grad"].append(rewrite)

    def refuse(self, why: str) -> None:
        """This change cannot be applied here.

        Raises:
            CannotApply: always.
        """
        raise CannotApply(why)

    # What points call.

    def meet(self, kind: str, each: Any) -> None:
        """Hand a new model, optimizer or parallel module to the callbacks that wait for it."""
        for do in self.callbacks[kind]:
            self._keep(do(each))

    def undo(self) -> list[str]:
        """Take everything off, last first; what could not be undone, in words."""
        failed = []
        for kind in KINDS:
            self.callbacks[kind] = []
        while self._undos:
            try:
                self._undos.pop()()
            except Exception as error:
                failed.append(f"{type(error).__name__}: {error}")
        return failed

    def _from_start(self, kind: str, callback: Callable[..., Any]) -> None:
        if self._live:
            self.refuse(f"{kind} can only be changed from the start of a process on")
        self.callbacks[kind].append(callback)

    def _with_each(self, kind: str, do: Callable[[Any], Undo | None]) -> None:
        self.callbacks[kind].append(do)
        for each in self._known[kind]:
            self._keep(do(each))

    def _keep(self, undo: Undo | None) -> None:
        if undo is not None:
            self._undos.append(undo)


def rewritten(rewrites: Iterable[Callable[[Call], None]], call: Call) -> Call:
    """The call with all of these changes made to it, in place."""
    for rewrite in rewrites:
        rewrite(call)
    return call
