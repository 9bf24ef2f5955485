"""What is measured of a block of steps: the time of each, what went through it, what torch.compile did."""

from __future__ import annotations

import sys
from time import perf_counter_ns
from typing import Any

from laptime.instrument.importing import WhenImported

_COMPILER_CALLBACKS = "torch._dynamo.callback"


class Stopwatch:
    """Times steps back to back.

    On the CPU each step has its own time. With an accelerator the host does not wait between steps, as in the
    script itself: it waits for the device at both ends of a stretch, whose time is divided evenly.
    """

    def __init__(self, device: Any) -> None:
        """`device`: an `instrument.device.Device`."""
        self._device = device
        self._waits = device.name != "cpu"
        self._begun: int | None = None
        self._steps: list[int] = []
        self._elapsed = 0
        self._count = 0

    def __len__(self) -> int:
        """Steps that have ended."""
        return self._count

    def start(self, before: int = 0) -> None:
        """A stretch of steps begins; `before` nanoseconds before it count with it."""
        if self._waits:
            self._device.wait()
        self._begun = perf_counter_ns() - before

    def lap(self, now: int) -> None:
        """A step has ended at `now`, and the next one begins."""
        if self._begun is None:
            return
        self._count += 1
        if not self._waits:
            self._steps.append(now - self._begun)
            self._begun = now

    def pause(self) -> None:
        """The stretch is over: an epoch has ended, or the block has."""
        if self._begun is None:
            return
        if self._waits:
            self._device.wait()
            self._elapsed += perf_counter_ns() - self._begun
        self._begun = None

    def seconds(self) -> list[float]:
        """Seconds of each step."""
        if self._waits:
            return [self._elapsed / self._count / 1e9] * self._count if self._count else []
        return [nanoseconds / 1e9 for nanoseconds in self._steps]


class StepCounts:
    """Counts what goes through a step: samples, losses, steps of optimizers. Nothing is read from the device.

    The loss of a step is the sum of the scalars that went backward: micro-batches, both halves of a GAN. So
    are its samples the sum of its batches.
    """

    def __init__(self) -> None:
        self.begin()
        self.clear()

    def begin(self) -> None:
        """A step begins; counts of an unfinished one are dropped."""
        self._samples = 0
        self._losses: list[Any] = []
        self._optimizer_steps = 0

    def clear(self) -> None:
        """A block begins."""
        self.samples: list[int] = []
        self.optimizer_steps = 0
        self._step_losses: list[list[Any]] = []

    def end(self) -> None:
        """The step has ended; it counts."""
        self.samples.append(self._samples)
        self._step_losses.append(self._losses)
        self.optimizer_steps += self._optimizer_steps
        self.begin()

    def fetched(self, batch: Any) -> None:
        """A batch came from a loader."""
        self._samples += samples(batch)

    def went_backward(self, root: Any) -> None:
        """A backward pass began from this."""
        if getattr(root, "ndim", None) == 0:
            self._losses.append(root.detach())

    def stepped(self) -> None:
        """An optimizer has stepped."""
        self._optimizer_steps += 1

    def losses(self) -> list[float]:
        """Loss of each step of the block; waits for the device. Empty where no scalar went backward."""
        if not all(self._step_losses):
            return []
        return [sum(float(loss) for loss in losses) for losses in self._step_losses]


def samples(batch: Any) -> int:
    """Leading dimension of the first tensor in a batch, nested as it may be; 0 without one."""
    size = getattr(batch, "shape", None)
    if size is not None:
        return int(size[0]) if len(size) else 1
    if isinstance(batch, dict) or hasattr(batch, "values"):
        batch = batch.values()
    elif not isinstance(batch, (list, tuple)):
        batch = vars(batch).values() if hasattr(batch, "__dict__") else ()
    return next((count for part in batch if (count := samples(part))), 0)


class CompileMonitor:
    """What torch.compile does while the loop runs.

    torch._dynamo.callback calls around every compilation: of frames, of backward graphs at their first run,
    of captured CUDA graphs. It exists from PyTorch 2.2 on; without it nothing is known and nothing counts.

    Attributes:
        seconds: in all. times: how often something was compiled.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.times = 0
        self._begun: int | None = None
        self._handler: Any = None
        self._watch = WhenImported(_COMPILER_CALLBACKS, self._register)

    def install(self) -> None:
        """Listen as soon as the compiler is imported."""
        self._watch.install()

    def remove(self) -> None:
        """Listen no longer. Safe to call twice."""
        self._watch.remove()
        if self._handler is not None:
            for phase, callback in (("start", self._starts), ("end", self._ends)):
                callbacks = getattr(self._handler, f"{phase}_callbacks")
                if callback in callbacks:
                    callbacks.remove(callback)
        self._handler = None

    def _register(self) -> None:
        handler: Any = getattr(sys.modules[_COMPILER_CALLBACKS], "callback_handler", None)
        if hasattr(handler, "start_callbacks") and hasattr(handler, "end_callbacks"):
            self._handler = handler
            handler.start_callbacks.append(self._starts)
            handler.end_callbacks.append(self._ends)

    def _starts(self, *arguments: Any) -> None:
        self._begun = perf_counter_ns()

    def _ends(self, *arguments: Any) -> None:
        if self._begun is not None:
            self.seconds += (perf_counter_ns() - self._begun) / 1e9
            self.times += 1
        self._begun = None
