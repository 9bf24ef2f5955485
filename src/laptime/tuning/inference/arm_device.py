"""What an arm's calls run on: how inputs get there, how a call is waited for, what memory it takes.

Imports no laptime: `arm_process` loads it from beside itself.
"""

from __future__ import annotations

import resource
from typing import Any


class Host:
    """The CPU: a call has ended when it returns; the peak is the largest resident set."""

    def moved(self, inputs: list[Any]) -> list[Any]:
        """The same inputs."""
        return inputs

    def begin(self) -> None:
        """Nothing to note."""

    def wait(self) -> None:
        """Nothing to wait for."""

    def peak(self) -> int:
        """Bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Cuda:
    """A CUDA device: calls are queued, and end when the device has finished them.

    The peak is what torch's allocator had in use at most, and what else this process has taken from the
    driver: weights of compiled packages, arenas of other runtimes, workspaces. The driver tells free bytes
    of all processes; so it is asked before and after what this one does, while the other side waits.
    The context itself does not count: every process has one.

    Lies when: another program takes or frees memory of the device meanwhile.

    Args:
        name: cuda:0, cuda:1 ...
    """

    def __init__(self, name: str) -> None:
        import torch

        self._torch, self._device = torch, torch.device(name)
        torch.cuda.set_device(self._device)
        torch.cuda.synchronize(self._device)  # makes the context, before the first reading
        self._taken = 0
        self.begin()

    def moved(self, inputs: list[Any]) -> list[Any]:
        """The inputs on the device, once, before anything is timed."""
        return [each.to(self._device) for each in inputs]

    def begin(self) -> None:
        """Note the free bytes before this process does something."""
        self._free = self._torch.cuda.mem_get_info(self._device)[0]

    def wait(self) -> None:
        """Return when the device has finished all that was queued."""
        self._torch.cuda.synchronize(self._device)

    def peak(self) -> int:
        """Bytes so far."""
        self.wait()
        before = self._free
        self.begin()
        self._taken += before - self._free
        cuda = self._torch.cuda
        others = self._taken - cuda.memory_reserved(self._device)
        return int(cuda.max_memory_allocated(self._device) + max(0, others))


def named(device: str) -> Host | Cuda:
    """The one of a name of torch's: cpu, cuda:0."""
    return Cuda(device) if device.startswith("cuda") else Host()
