"""The next batch travels to the GPU on a stream of its own while the present one is computed.

Source: timm, `PrefetchLoader`; NVIDIA apex, `data_prefetcher`; CUDA C++ Programming Guide, "Overlap of Data
Transfer and Kernel Execution".
Lies when: copies already overlap because the host runs ahead: then a stream adds nothing. A second batch
takes device memory, and what the script wants to keep on the CPU is moved, too.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue import _code, _loader
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import CannotEdit, Options

TITLE = "the next batch copied while the present one is used"
NUMERICS = "exact"
TOGGLE = "process"
NEEDS = frozenset({"loader", "cuda", "pinned"})
GIVES = frozenset({"prefetch_to_device"})
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.4


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Once, where the device has room for a second batch."""
    return [] if why_not(loop_profile) else [{}]


def why_not(loop_profile: LoopProfile) -> str:
    """The device is full."""
    free = loop_profile.device_memory
    return (
        ""
        if free is None or free > 2 * loop_profile.batch_bytes
        else "the device has no room for another batch"
    )


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The copies to the device."""
    return _loader.within(loop_profile, loop_profile.share("transfer"))


def apply(loop: Any, options: Options) -> None:
    """Around what every DataLoader gives; its own iterator, and what is known of it, stays as it is."""

    def wrap() -> Any:
        from torch.utils.data import DataLoader

        from laptime.tuning.catalogue._device_prefetcher import prefetched

        original = DataLoader.__iter__

        def __iter__(self: Any) -> Any:  # noqa: N807, torch's name
            return prefetched(original(self))

        def undo() -> None:
            DataLoader.__iter__ = original  # type: ignore[method-assign]

        DataLoader.__iter__ = __iter__  # type: ignore[method-assign]
        return undo

    loop.process(wrap)


def edit(script: Any, options: Options) -> None:
    """The class, and the training loader in it."""
    if not script.has_site("loader"):
        raise CannotEdit("the loader is made by a library")
    _code.define(script, "_device_prefetcher")
    script.replace_text("loader", "DevicePrefetcher({})")
