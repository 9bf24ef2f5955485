"""What a diagnosing trial watches beside the times of steps: gradients being zeroed, clipped and scaled, and
how long the device works."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from laptime.tuning.trial.source_sites import SiteCounts


class GradientWatch:
    """Sees gradients being zeroed, clipped and scaled.

    Attributes:
        facts: of `loop_profile.FACTS`: zero_grad_to_zero, clipping, grad_scaler.
        sites: where gradients are zeroed, while it is not None.
    """

    def __init__(self) -> None:
        self.facts: set[str] = set()
        self.sites: SiteCounts | None = None
        self._originals: list[tuple[Any, str, Any, Any]] = []
        self._is_installed = False

    def install(self) -> None:
        """Wrap torch's functions; torch is imported already. The second time does nothing."""
        if self._is_installed:
            return
        self._is_installed = True
        import torch
        from torch.nn.utils import clip_grad

        self._wrap(torch.optim.Optimizer, "zero_grad", self._zeroed)
        self._wrap(torch.nn.Module, "zero_grad", self._zeroed)
        # A script has its own name for the function that clips; what that function calls has one only.
        inner = (
            "_clip_grads_with_norm_" if hasattr(clip_grad, "_clip_grads_with_norm_") else "clip_grad_norm_"
        )
        for owner, name in ((clip_grad, inner), (torch.nn.utils, "clip_grad_value_")):
            self._wrap(owner, name, lambda *args, **kwargs: self.facts.add("clipping"))
        scaler = getattr(torch.amp, "GradScaler", None)
        if scaler is not None:
            self._wrap(scaler, "scale", self._scaled)

    def undo(self) -> None:
        """Give everything back that still is ours. Safe to call twice."""
        for owner, name, original, wrapper in reversed(self._originals):
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)
        self._originals = []

    def _wrap(self, owner: Any, name: str, listen: Callable[..., Any]) -> None:
        original = vars(owner).get(name)
        if original is None:
            return

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            listen(*args, **kwargs)
            return original(*args, **kwargs)

        self._originals.append((owner, name, original, wrapper))
        setattr(owner, name, wrapper)

    def _zeroed(self, owner: Any, set_to_none: bool = True, *rest: Any, **more: Any) -> None:
        if not set_to_none:
            self.facts.add("zero_grad_to_zero")
        if self.sites is not None:
            self.sites.note("zero_grad", owner, detail="" if set_to_none else "set_to_none=False")

    def _scaled(self, scaler: Any, *rest: Any, **more: Any) -> None:
        if scaler.is_enabled():
            self.facts.add("grad_scaler")


class DeviceTime:
    """How long the device works in a step: recorded by torch's profiler for a few steps.

    Kernels and copies are as long under a profiler as without one; the step is not, so its time is taken from
    steps that nobody recorded. Their quotient is what TensorBoard's profiler calls GPU utilisation: the share
    of time in which something runs on the device, whatever part of it that keeps busy.
    Lies when: several processes share the device; only this one's kernels are seen.

    Attributes:
        steps: that it has seen. seconds: of them in which the device worked; None where nothing was recorded.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.seconds: float | None = None
        self._profiler: Any = None

    def enter(self, kind: str) -> None:
        """A step begins; kind: cuda or xpu."""
        self.steps += 1
        if self._profiler is not None:
            return
        import torch

        activity = getattr(torch.profiler.ProfilerActivity, kind.upper(), None)
        with suppress(Exception):  # the script has a profiler of its own, the driver allows none
            if activity is not None:
                profiler = torch.profiler.profile(activities=[activity])
                profiler.__enter__()  # type: ignore[no-untyped-call]
                self._profiler = profiler

    def leave(self) -> None:
        """All steps have ended, and the device was waited for. Safe to call at any time."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        with suppress(Exception):
            profiler.__exit__(None, None, None)
            self.seconds = covered(_intervals(profiler.events())) or None

    @property
    def per_step(self) -> float | None:
        """Seconds in a step that the device works."""
        return self.seconds / self.steps if self.seconds is not None and self.steps else None


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of (begin, end): streams that work at the same time count once."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def _intervals(events: Any) -> Iterable[tuple[float, float]]:
    """Seconds at which something ran on the device; torch tells microseconds."""
    return [
        (each.time_range.start / 1e6, each.time_range.end / 1e6)
        for each in events or ()
        if each.device_type.name != "CPU" and not getattr(each, "is_user_annotation", False)
    ]
