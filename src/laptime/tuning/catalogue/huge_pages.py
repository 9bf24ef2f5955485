"""Large tensors lie on pages of 2 MiB: five hundred times fewer page faults, fewer address misses.

Source: c10/core/impl/alloc_cpu.cpp: THP_MEM_ALLOC_ENABLE=1 aligns tensors of 2 MiB and more and asks the
kernel by madvise. It is read at the first allocation, so it is set before any tensor is made.
Lies when: memory is fragmented; then the kernel stops to make room
(/sys/kernel/mm/transparent_hugepage/defrag).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from laptime.tuning.catalogue.allocator import of_faults
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "huge pages for large tensors"
NUMERICS = "exact"
TOGGLE = "process"
NEEDS = frozenset({"cpu"})
GIVES = frozenset({"huge_pages"})
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.15

SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")
VARIABLE = "THP_MEM_ALLOC_ENABLE"


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Where the kernel gives them to those who ask: not where everybody has them, nor where nobody has."""
    return [{}] if _given() == "madvise" and os.environ.get(VARIABLE) != "1" else []


def why_not(loop_profile: LoopProfile) -> str:
    """What the kernel is set to."""
    if "cpu" not in loop_profile.facts:
        return "tensors are not in the host's memory"
    given = _given()
    if given == "madvise":
        return f"{VARIABLE} is set already"
    return f"the kernel gives huge pages {given}" if given else "this system has no transparent huge pages"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """What a step's page faults cost, and a twentieth of computing for address misses; at most a third."""
    compute = loop_profile.share("forward", "backward", "optimizer")
    return min(compute / 3, of_faults(loop_profile) + compute / 20)


def apply(loop: Any, options: Options) -> None:
    """The variable, in this process and those that it starts."""

    def switch() -> Any:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = "1"

        def back() -> None:
            if before is None:
                os.environ.pop(VARIABLE, None)
            else:
                os.environ[VARIABLE] = before

        return back

    loop.process(switch)


def edit(script: Any, options: Options) -> None:
    """One line at the start: before the script makes its first tensor."""
    script.at_start(f'os.environ["{VARIABLE}"] = "1"', "import os")


def _given() -> str:
    """always, madvise or never; "" where the kernel does not say."""
    try:
        text = SWITCH.read_text()
    except OSError:
        return ""
    return text.partition("[")[2].partition("]")[0]
