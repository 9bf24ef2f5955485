"""One block of steps: how long each took, and what went through it."""

from __future__ import annotations

from time import perf_counter_ns, process_time_ns
from typing import Any


class Stopwatch:
    """Times steps back to back.

    On the CPU each step has its own time. With an accelerator nothing is waited for between steps, as in the
    script itself: the device is waited for at both ends of a stretch, and its time is divided evenly.
    """

    def __init__(self, device: Any) -> None:
        """For an `instrument.device.Device`."""
        self._device = device
        self._waits = device.name != "cpu"
        self._begun: int | None = None
        self._cpu_begun = 0
        self._steps: list[int] = []
        self._elapsed = 0
        self._count = 0
        self.cpu = 0.0

    def __len__(self) -> int:
        """Steps that have ended."""
        return self._count

    def start(self, before: int = 0) -> None:
        """A stretch of steps begins; so many nanoseconds before count with it."""
        if self._waits:
            self._device.wait()
        self._cpu_begun = process_time_ns()
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
        self.cpu += (process_time_ns() - self._cpu_begun) / 1e9
        self._begun = None

    def seconds(self) -> list[float]:
        """Of each step."""
        if self._waits:
            return [self._elapsed / self._count / 1e9] * self._count if self._count else []
        return [each / 1e9 for each in self._steps]


class Counted:
    """What goes through a step: samples, losses, steps of optimizers. Nothing is read from the device.

    The loss of a step is the sum of the scalars that went backward: micro-batches, both halves of a GAN. So
    are its samples the sum of its batches.
    """

    def __init__(self, *, keeps_losses: bool) -> None:
        self._keeps_losses = keeps_losses
        self.begin()
        self.clear()

    def begin(self) -> None:
        """A step begins; what was counted of an unfinished one is dropped."""
        self._samples = 0
        self._losses: list[Any] = []
        self._optimizer_steps = 0
        self._rate: Any = None

    def clear(self) -> None:
        """A block begins."""
        self.samples: list[int] = []
        self.rates: list[Any] = []
        self.optimizer_steps = 0
        self._kept: list[list[Any]] = []

    def end(self) -> None:
        """The step has ended; it counts."""
        self.samples.append(self._samples)
        self._kept.append(self._losses)
        self.optimizer_steps += self._optimizer_steps
        self.rates.append(self._rate)
        self.begin()

    def fetched(self, batch: Any) -> None:
        """A batch came from a loader."""
        self._samples += samples(batch)

    def went_backward(self, root: Any) -> None:
        """A backward pass began from this."""
        if self._keeps_losses and getattr(root, "ndim", None) == 0:
            self._losses.append(root.detach())

    def stepped(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        self._optimizer_steps += 1
        if self._rate is None:
            self._rate = optimizer.param_groups[0].get("lr")

    def losses(self) -> list[float]:
        """Of each step of the block; waits for the device. Empty where no scalar went backward."""
        if not all(self._kept):
            return []
        return [sum(float(each) for each in step) for step in self._kept]


def samples(batch: Any) -> int:
    """Leading dimension of the first tensor in a batch, nested as it may be; 0 without one."""
    size = getattr(batch, "shape", None)
    if size is not None:
        return int(size[0]) if len(size) else 1
    if isinstance(batch, dict) or hasattr(batch, "values"):
        batch = batch.values()
    elif not isinstance(batch, (list, tuple)):
        batch = vars(batch).values() if hasattr(batch, "__dict__") else ()
    for each in batch:
        found = samples(each)
        if found:
            return found
    return 0
