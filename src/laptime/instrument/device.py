"""The accelerator that a script uses, asked only once the script itself has started it."""

from __future__ import annotations

from typing import Any


class Device:
    """Tells the time on the device, and waits for it.

    Steps are timed by events in the device's own queue: nothing is waited for, so the script keeps running
    ahead of its device as it would without us, and a step is as long as the device takes for it.
    """

    @property
    def name(self) -> str:
        """cuda or xpu once it has been started, else cpu."""
        import torch

        for kind in ("cuda", "xpu"):
            module = getattr(torch, kind, None)
            if module is not None and module.is_initialized():
                return kind
        return "cpu"

    @property
    def clock(self) -> str:
        """What `mark` reads."""
        return "host" if self.name == "cpu" else f"{self.name} events"

    def mark(self) -> Any:
        """An event in the device's queue, None where only the host has a clock."""
        kind = self.name
        if kind == "cpu":
            return None
        import torch

        event = getattr(torch, kind).Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin: Any, end: Any) -> int | None:
        """Nanoseconds between two marks that were passed; None when one is missing."""
        if begin is None or end is None:
            return None
        end.synchronize()
        milliseconds: float = begin.elapsed_time(end)
        return round(milliseconds * 1e6)

    def wait(self) -> None:
        """Return when all that was started on the device is done."""
        import torch

        kind = self.name
        if kind != "cpu":
            getattr(torch, kind).synchronize()
