"""The CUDA allocator grows its segments instead of adding new ones: less is lost between blocks.

Source: "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF", PyTorch manual.
Lies when: sizes are the same in every step: there is nothing to be lost then.
"""

from __future__ import annotations

import os
from typing import Any

from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "allocator with expandable segments"
NUMERICS = "exact"
TOGGLE = "process"
NEEDS = frozenset({"cuda"})
GIVES = frozenset({"expandable_segments"})
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.2

VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""The second is the older name; both are read by now."""
SETTING = "expandable_segments:True"


def look(points: Any) -> dict[str, float]:
    """How often the allocator had to try again, and the share of its memory that is in no tensor."""
    import torch

    cuda: Any = torch.cuda
    if not cuda.is_available() or not cuda.is_initialized():
        return {}
    found = cuda.memory_stats()
    reserved = found.get("reserved_bytes.all.peak", 0)
    used = found.get("allocated_bytes.all.peak", 0)
    return {"retries": found.get("num_alloc_retries", 0), "lost": 1 - used / reserved if reserved else 0.0}


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Where memory is lost or had to be asked for twice, or shapes vary."""
    if "cuda" not in loop_profile.facts or _is_set():
        return []
    found = loop_profile.details.get("expandable_segments") or {}
    lost = found.get("lost", 0.0) > 0.2 or found.get("retries", 0) > 0
    return [{}] if lost or "varying_shapes" in loop_profile.facts else []


def why_not(loop_profile: LoopProfile) -> str:
    """Nothing is lost."""
    if "cuda" not in loop_profile.facts:
        return "there is no CUDA allocator"
    if _is_set():
        return "the environment configures the allocator already"
    return "the allocator loses no memory and never had to try again"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """A fifth of the step where the allocator had to try again; a fiftieth where memory is only lost."""
    found = loop_profile.details.get("expandable_segments") or {}
    return (0.2 if found.get("retries", 0) else 0.02) * loop_profile.step


def apply(loop: Any, options: Options) -> None:
    """The environment for this process and its children, read when CUDA starts; the allocator's switch
    where torch has one."""

    def switch() -> Any:
        import torch

        before = {name: os.environ.get(name) for name in VARIABLES}
        cuda: Any = torch.cuda
        if cuda.is_initialized() and cuda.memory_allocated():
            loop.refuse("CUDA's allocator is in use already")
        os.environ[VARIABLES[1]] = SETTING
        tell: Any = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
        if tell is not None:
            tell(SETTING)

        def back() -> None:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            if tell is not None:
                tell(SETTING.replace("True", "False"))

        return back

    loop.process(switch)


def edit(script: Any, options: Options) -> None:
    """One line at the start, before CUDA starts."""
    script.at_start(f'os.environ.setdefault("{VARIABLES[1]}", "{SETTING}")', "import os")


def _is_set() -> bool:
    return any("expandable_segments" in os.environ.get(name, "") for name in VARIABLES)
