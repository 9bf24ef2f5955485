"""More batches held ready by each worker: a slow one among them is not waited for.

Source: PyTorch documentation of torch.utils.data.DataLoader, `prefetch_factor` (2 by default).
Lies when: workers are slower than the step on average: then no store of batches lasts.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue import _loader
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "more batches held ready by each worker"
NUMERICS = "exact"
TOGGLE = "process"
NEEDS = frozenset({"loader", "workers"})
GIVES: frozenset[str] = frozenset()
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.2

VALUES = (4, 8, 16)


def propose(loop_profile: LoopProfile) -> list[Options]:
    """4, 8 and 16, as far as memory and /dev/shm hold them, above what the script has."""
    present = int(loop_profile.loader.get("prefetch_factor") or _loader.PREFETCH)
    number = max(1, _loader.workers(loop_profile))
    return [
        {"value": value} for value in VALUES if value > present and _loader.fits(loop_profile, number, value)
    ]


def why_not(loop_profile: LoopProfile) -> str:
    """Nothing larger fits."""
    if "workers" in loop_profile.facts and not propose(loop_profile):
        return "it is high already, or memory and /dev/shm have no room for more batches"
    return ""


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The wait for batches."""
    return _loader.within(loop_profile, loop_profile.share("data"))


def apply(loop: Any, options: Options) -> None:
    """prefetch_factor of every DataLoader that has workers."""
    value = int(options["value"])
    loop.loader(_loader.with_workers(lambda call: call.arguments.update(prefetch_factor=value)))


def edit(script: Any, options: Options) -> None:
    """One argument of the training loader."""
    _loader.set_everywhere(script, "prefetch_factor", str(int(options["value"])))
