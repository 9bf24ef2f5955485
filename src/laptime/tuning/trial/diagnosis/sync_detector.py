"""Finds calls that make the host wait for the device, with the user's file and line. Needs no accelerator.

Every operator of a step passes through a TorchDispatchMode. An operator that returns a value to Python
(`.item()`, `float(x)`, `if x > 0`, printing), whose output has a size that the data decide (nonzero, boolean
masks, unique), or that copies to the host waits for all that was started before it.

Not covered: waiting inside compiled code and inside extensions; `torch.cuda.synchronize()` is seen by name.

How long the device works in a step: recorded by torch's profiler for a few steps of a diagnosis.

Kernels and copies are as long under a profiler as without one; the step is not, so its time is taken from
steps that nobody recorded. Their quotient is what TensorBoard's profiler calls GPU utilisation: the share of
time in which something runs on the device, whatever part of it that keeps busy.
Lies when: several processes share the device; only this one's kernels are seen."""

import re
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from itertools import takewhile
from time import perf_counter
from traceback import walk_stack
from types import FrameType
from typing import Any

from laptime.tuning.loop_profile import Site
from laptime.tuning.trial.loop import replace_attr
from laptime.tuning.trial.source_sites import SiteCounts, users_frame

VALUES = {"_local_scalar_dense": "item", "equal": "equal", "is_nonzero": "bool"}
SIZES = {
    "nonzero": "nonzero",
    "masked_select": "masked_select",
    "_unique": "unique",
    "_unique2": "unique",
    "unique_dim": "unique",
    "unique_consecutive": "unique",
    "repeat_interleave": "repeat_interleave",
}
INDEXED = frozenset({"index", "index_put", "index_put_", "_index_put_impl_"})
COPIES = frozenset({"_to_copy", "copy_"})
COPY = "copy to the host"
MATRICES = frozenset({"mm", "addmm", "bmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu"})
"""Operators that compute in half precision if autocast is on."""
LIBRARY = re.compile(
    r"(?<![a-z])(add|baddb|addb|b)?mm(?![a-z])|convolution|mkldnn|scaled_dot_product|embedding|pool|rnn|lstm"
    r"|(?<![a-z])gru|sort|topk|index|scatter|gather|fft|linalg"
)
"""In the names of operators that a compiler calls as they are; it can fuse those around them."""
ATTENTION = "scaled_dot_product"
RECOMPUTED = ("torch/utils/checkpoint.py", "torch/autograd/__init__.py")
"""Files on the stack where a backward pass computes activations anew."""
HOST = ("cpu", "meta")
LIBRARY_STEPS = ("torch/optim/", "torch/amp/")
"""Torch's own files that wait on purpose: step counts of optimizers, the scaler's check for infinities."""


class SyncDetector:
    """Modes of torch that are entered and left between steps.

    Attributes:
        halves: matrix products ran in float16 or bfloat16. checkpointing: activations were computed anew in
            a backward pass. attention: scaled dot products ran.
        steps: whole steps that were looked at.
        optimizes: what runs now is an optimizer's.
        muted: what runs now is the loader's, on the host.
        accelerator: there is one, so tensors of the host do not count.
    """

    def __init__(self) -> None:
        self._sites = SiteCounts()
        self.steps = self._count = 0
        self._seconds = self._fusable = 0.0
        self.optimizes = False
        self.halves = self.checkpointing = self.attention = False
        self.muted = self.accelerator = False
        self._watches: ExitStack | None = None

    def enter(self) -> None:
        """A step that is looked at begins."""
        if self._watches is not None:
            return
        from torch import _tensor_str

        original: Any = _tensor_str._str

        def _str(tensor: Any, *rest: Any, **more: Any) -> Any:
            self._method_called("print", tensor)
            return original(tensor, *rest, **more)

        self._watches = ExitStack()
        self._watches.enter_context(_operators(self._operator_ran))
        self._watches.enter_context(_methods(self._method_called))
        # Torch leaves all modes while it writes a tensor's values: that function is watched itself.
        self._watches.callback(replace_attr(_tensor_str, "_str", _str))

    def leave(self) -> None:
        """No step is looked at. Safe to call twice."""
        watches, self._watches = self._watches, None
        if watches is not None:
            watches.close()

    def sites(self) -> list[Site]:
        """Return the sites that synchronise, with their counts per step."""
        return self._sites.sites(self.steps)

    def _method_called(self, name: str, tensor: Any) -> None:
        if not self.muted and (_kind(tensor, "") != "cpu" or not self.accelerator):
            self._sites.note("sync", detail=name)

    def operators(self) -> dict[str, float]:
        """Operators of a step, the optimizer's left out, and the share of their time that a compiler could
        fuse. That share is known on the CPU only: elsewhere an operator's time is that of starting it."""
        if not self.steps or not self._count:
            return {}
        count = {"count": self._count / self.steps}
        return count if self.accelerator else {**count, "fusable": self._fusable / max(self._seconds, 1e-9)}

    def _operator_ran(self, name: str, arguments: tuple[Any, ...], result: Any, seconds: float) -> None:
        if self.muted:
            return
        if not self.optimizes:  # forward and backward passes, for `operators`
            self._count += 1
            self._seconds += seconds
            self._fusable += 0.0 if LIBRARY.search(name) else seconds
        self.attention = self.attention or ATTENTION in name
        if name in MATRICES:
            import torch

            self.halves = self.halves or getattr(result, "dtype", None) in (torch.float16, torch.bfloat16)
            if not self.checkpointing:
                files = [frame.f_code.co_filename for frame, _ in walk_stack(sys._getframe(1))]
                self.checkpointing = all(any(file.endswith(end) for file in files) for end in RECOMPUTED)
            return
        what = VALUES.get(name) or SIZES.get(name) or _find_mask(name, arguments)
        what = what or _find_copy(name, arguments, result)
        if what is None or (name in VALUES and _is_torchs_own(sys._getframe(1))):
            return
        if not self.accelerator or what == COPY or any(_kind(argument) not in HOST for argument in arguments):
            self._sites.note("sync", detail=what)


def _operators(listen: Any) -> Any:
    """The mode that sees operators; its class is torch's."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            began = perf_counter()
            result = func(*args, **(kwargs or {}))
            listen(func.overloadpacket.__name__, args, result, perf_counter() - began)
            return result

    return Operators()  # type: ignore[no-untyped-call]


def _methods(listen: Any) -> Any:
    """The mode that sees methods: `.cpu()` of a tensor of the CPU is no operator."""
    import torch
    from torch.overrides import TorchFunctionMode

    names = {torch.Tensor.cpu: "cpu", torch.Tensor.numpy: "numpy", torch.Tensor.tolist: "tolist"}

    class Methods(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in names and args:
                listen(names[func], args[0])
            return func(*args, **(kwargs or {}))

    return Methods()


def _kind(value: Any, otherwise: str = "cpu") -> Any:
    return getattr(getattr(value, "device", None), "type", otherwise)


def _find_mask(name: str, arguments: tuple[Any, ...]) -> str | None:
    """Indexing by a mask: torch counts its elements first."""
    if name not in INDEXED or len(arguments) < 2:
        return None
    import torch

    masks = (torch.bool, torch.uint8)
    is_mask = any(getattr(each, "dtype", None) in masks for each in arguments[1] or ())
    return "index by a mask" if is_mask else None


def _find_copy(name: str, arguments: tuple[Any, ...], result: Any) -> str | None:
    if name not in COPIES or not arguments:
        return None
    source = arguments[1] if name == "copy_" and len(arguments) > 1 else arguments[0]
    return COPY if _kind(source) not in HOST and _kind(result) == "cpu" else None


def _is_torchs_own(frame: FrameType) -> bool:
    """Whether torch itself asks, between here and the user's line."""
    user = users_frame(frame)
    frames = takewhile(lambda each: each is not user, (each for each, _ in walk_stack(frame)))
    return any(part in frame.f_code.co_filename for frame in frames for part in LIBRARY_STEPS)


# Time of the device.


class DeviceTime:
    """A record of a few steps. steps: that it has seen. seconds: of them in which the device worked; None
    if nothing was recorded."""

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
            self.seconds = sum_union(_intervals(profiler.events())) or None

    @property
    def per_step(self) -> float | None:
        """Seconds in a step that the device works."""
        return self.seconds / self.steps if self.seconds is not None and self.steps else None


def sum_union(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of (begin, end): streams that work at the same time count once."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def _intervals(events: Any) -> Iterable[tuple[float, float]]:
    """Seconds at which something ran on the device; torch tells microseconds."""
    return [
        (event.time_range.start / 1e6, event.time_range.end / 1e6)
        for event in events or ()
        if event.device_type.name != "CPU" and not getattr(event, "is_user_annotation", False)
    ]
