"""The next batch travels to the GPU on a stream of its own while the present one is computed.

Source: timm, `PrefetchLoader`; NVIDIA apex, `data_prefetcher`; CUDA C++ Programming Guide, "Overlap of Data
Transfer and Kernel Execution".
Lies when: copies already overlap because the host runs ahead: then a stream adds nothing. A second batch
takes device memory, and tensors that the script wants on the CPU are moved, too."""

from typing import Any

from laptime.tuning.catalogue import _inserted
from laptime.tuning.optimization import CannotEdit, LoopProfile, Optimization, Options


def why_not(loop_profile: LoopProfile) -> str:
    free = loop_profile.device_memory
    is_full = free is not None and free <= 2 * loop_profile.batch_bytes
    return "the device has no room for another batch" if is_full else ""


def apply(loop: Any, options: Options) -> None:
    """Around what every DataLoader gives; its own iterator, and what is known of it, stays as it is."""
    from torch.utils.data import DataLoader

    from laptime.tuning.catalogue._inserted.device_prefetcher import prefetch_all

    original = DataLoader.__iter__
    loop.set_attribute(DataLoader, "__iter__", lambda self: prefetch_all(original(self)))


def edit(script: Any, options: Options) -> None:
    if not script.has_site("loader"):
        raise CannotEdit("the loader is made by a library")
    _inserted.define(script, "device_prefetcher")
    script.replace_text("loader", "DevicePrefetcher({})")


OPTIMIZATION = Optimization(
    title="the next batch copied while the present one is used",
    numerics="exact",
    saves={"transfer": 1.0},
    needs=frozenset({"loader", "cuda", "pinned"}),
    prior=0.4,
    why_not=why_not,
    apply=apply,
    edit=edit,
)
