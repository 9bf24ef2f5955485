"""The CUDA allocator grows its segments instead of adding new ones: less memory is lost between blocks.

Source: "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF", PyTorch manual.
Lies when: sizes are the same in every step: then nothing is lost."""

import os
from typing import Any

from laptime.tuning.optimization import LoopProfile, Optimization, Options

VARIABLE, NEWER = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"  # newer versions of PyTorch read both
SETTING = "expandable_segments:True"


def look(hooks: Any) -> dict[str, float]:
    """Return how often the allocator had to try again, and the share of its memory that is in no tensor."""
    import torch

    cuda: Any = torch.cuda
    if not cuda.is_available() or not cuda.is_initialized():
        return {}
    stats = cuda.memory_stats()
    reserved = stats.get("reserved_bytes.all.peak", 0)
    used = stats.get("allocated_bytes.all.peak", 0)
    return {"retries": stats.get("num_alloc_retries", 0), "lost": 1 - used / reserved if reserved else 0.0}


def why_not(loop_profile: LoopProfile) -> str:
    if any("expandable_segments" in os.environ.get(name, "") for name in (VARIABLE, NEWER)):
        return "the environment configures the allocator already"
    is_short = loop_profile.detail("expandable_segments", "lost", 0.0) > 0.2 or _retries(loop_profile)
    helps = is_short or "varying_shapes" in loop_profile.facts
    return "" if helps else "the allocator loses no memory and never had to try again"


def _retries(loop_profile: LoopProfile) -> int:
    return int(loop_profile.detail("expandable_segments", "retries", 0))


def apply(loop: Any, options: Options) -> None:
    """The environment for this process and its children, read when CUDA starts; the allocator's switch
    if torch has one."""

    def switch() -> Any:
        import torch

        cuda: Any = torch.cuda
        if cuda.is_initialized() and cuda.memory_allocated():
            loop.refuse("CUDA's allocator is in use already")
        configure: Any = getattr(torch._C, "_accelerator_setAllocatorSettings", lambda setting: None)
        configure(SETTING)
        return lambda: configure(SETTING.replace("True", "False"))

    loop.process(switch)
    loop.set_environment(VARIABLE, SETTING)


OPTIMIZATION = Optimization(
    title="allocator with expandable segments",
    numerics="exact",
    # A fifth of the step if the allocator had to try again; a fiftieth if memory is only lost.
    saves=lambda loop_profile, options: (0.2 if _retries(loop_profile) else 0.02) * loop_profile.step,
    needs=frozenset({"cuda"}),
    prior=0.2,
    read_at_start=True,
    why_not=why_not,
    look=look,
    example={"retries": 3, "lost": 0.3},
    apply=apply,
    # One line at the start, before CUDA starts.
    edit=lambda script, options: script.at_start(
        f'os.environ.setdefault("{VARIABLE}", "{SETTING}")', "import os"
    ),
)
