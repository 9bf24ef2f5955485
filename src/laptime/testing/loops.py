"""A loop without a script, for tests of optimizations: what was attached, run on whatever the test gives.

loop = FakeLoop(models=[net])
load("channels_last").apply(loop, {})
images = loop.convert(images)
with loop.in_forward():
    loss = net(images).sum()
loop.undo()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from laptime.tuning.trial.loop import KINDS, ConstructorCall, Loop


class FakeLoop(Loop):
    """Implements `trial.loop.Loop`, and plays the script: the callbacks and the way back of the real one."""

    def __init__(
        self,
        *,
        models: Iterable[Any] = (),
        optimizers: Iterable[Any] = (),
        parallels: Iterable[Any] = (),
        device: str = "cpu",
        live: bool = False,
    ) -> None:
        """A loop that has these objects; others may follow by `meet(kind, object)`."""
        super().__init__(live=live, models=models, optimizers=optimizers, parallels=parallels, device=device)

    @property
    def kinds(self) -> set[str]:
        """Kinds of callbacks that are attached now."""
        return {kind for kind in KINDS if self.callbacks[kind]}

    def made(self, kind: str, cls: Any, **arguments: Any) -> ConstructorCall:
        """A constructor call after all changes: kind is loader, optimizer or parallel."""
        name = "DataLoader" if kind == "loader" else getattr(cls, "__name__", str(cls))
        call = self.rewritten(kind, ConstructorCall(name, cls, dict(arguments)))
        if kind == "loader" and "dataset" in call.arguments:
            for wrap in self.callbacks["dataset"]:
                call.arguments["dataset"] = wrap(call.arguments["dataset"])
        return call

    def convert(self, batch: Any) -> Any:
        """A batch on its way to the script."""
        for convert in self.callbacks["batch"]:
            batch = convert(batch)
        return batch

    @contextmanager
    def in_forward(self) -> Iterator[None]:
        """The forward part of a step."""
        with ExitStack() as stack:
            for context in self.callbacks["forward"]:
                stack.enter_context(context())
            yield

    def scaled(self, loss: Any) -> Any:
        """What a backward pass starts from."""
        for scale in self.callbacks["backward"]:
            loss = scale(loss)
        return loss

    def stepped(self, optimizer: Any) -> Any:
        """One step of an optimizer."""
        run: Callable[[], Any] = optimizer.step
        for around in self.callbacks["step"]:
            run = partial(around, optimizer, run)
        return run()

    def zeroing(self, **arguments: Any) -> dict[str, Any]:
        """Keyword arguments of zero_grad."""
        for rewrite in self.callbacks["zero_grad"]:
            rewrite(arguments)
        return arguments

    def started(self, worker: int) -> None:
        """What a loader worker runs before the script's own worker_init_fn."""
        for start in self.callbacks["worker"]:
            start(worker)
