"""Large tensors lie on pages of 2 MiB: five hundred times fewer page faults, fewer address misses.

Source: c10/core/impl/alloc_cpu.cpp: THP_MEM_ALLOC_ENABLE=1 aligns tensors of 2 MiB and more and asks the
kernel by madvise. It is read at the first allocation, so it is set before any tensor is made.
Lies when: memory is fragmented; then the kernel stops to make room
(/sys/kernel/mm/transparent_hugepage/defrag)."""

import os
from pathlib import Path

from laptime.kit import system_files
from laptime.tuning.catalogue import _bounds
from laptime.tuning.optimization import LoopProfile, Optimization, Options

SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")
VARIABLE = "THP_MEM_ALLOC_ENABLE"


def why_not(loop_profile: LoopProfile) -> str:
    """It helps if the kernel gives huge pages on request: not if they are always or never given."""
    setting = (system_files.text(SWITCH) or "").partition("[")[2].partition("]")[0]
    if setting != "madvise":
        has_some = f"the kernel gives huge pages {setting}"
        return has_some if setting else "the system has no transparent huge pages"
    return f"{VARIABLE} is set already" if os.environ.get(VARIABLE) == "1" else ""


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Return the cost of page faults, and a twentieth of computing for address misses; at most a third."""
    compute = loop_profile.share("forward", "backward", "optimizer")
    return min(compute / 3, _bounds.page_faults(loop_profile) + compute / 20)


OPTIMIZATION = Optimization(
    title="huge pages for large tensors",
    numerics="exact",
    saves=bound,
    needs=frozenset({"cpu"}),
    prior=0.15,
    read_at_start=True,
    why_not=why_not,
    apply=lambda loop, options: loop.set_environment(VARIABLE, "1"),
    # One line at the start: before the script makes its first tensor.
    edit=lambda script, options: script.at_start(f'os.environ["{VARIABLE}"] = "1"', "import os"),
)
