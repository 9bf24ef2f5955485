"""Batches in the order in which workers finish them: one slow sample does not hold up the others.

Source: PyTorch documentation of torch.utils.data.DataLoader, `in_order` (since 2.6).
Lies when: slow samples are of one kind: they then come late in every epoch, and the order is no longer
uniform.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue import _loader
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import CannotEdit, Options

TITLE = "batches in the order in which they are ready"
NUMERICS = "random"
TOGGLE = "process"
NEEDS = frozenset({"loader", "workers"})
GIVES = frozenset({"in_order"})
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.1


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Once, where there are several workers and the script has not said it itself."""
    return (
        [{}] if _loader.workers(loop_profile) > 1 and loop_profile.loader.get("in_order") is not False else []
    )


def why_not(loop_profile: LoopProfile) -> str:
    """One worker has one order."""
    return "" if _loader.workers(loop_profile) > 1 else "one worker finishes its batches in their order"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The wait for batches."""
    return _loader.within(loop_profile, loop_profile.share("data"))


def apply(loop: Any, options: Options) -> None:
    """in_order of every DataLoader that has workers; refused by a torch before 2.6."""

    def rewrite(call: Any) -> None:
        import inspect

        if "in_order" not in inspect.signature(call.cls.__init__).parameters:
            loop.refuse(f"{call.kind} has no argument in_order: torch 2.6 is the first that has")
        call.arguments["in_order"] = False

    loop.loader(_loader.with_workers(rewrite))


def edit(script: Any, options: Options) -> None:
    """One argument of the training loader."""
    if script.has_site("hf_arguments") and not script.has_site("loader"):
        raise CannotEdit("transformers.TrainingArguments has no such argument")
    script.set_arguments("loader", in_order="False")
