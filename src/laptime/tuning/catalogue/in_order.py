"""Batches in the order in which workers finish them: one slow sample does not hold up the others.

Source: PyTorch documentation of torch.utils.data.DataLoader, `in_order` (since 2.6).
Lies when: slow samples are of one kind: they then come late in every epoch, and the order is no longer
uniform."""

import inspect
from typing import Any

from laptime.tuning.catalogue import _loader
from laptime.tuning.optimization import CannotEdit, LoopProfile, Optimization, Options


def why_not(loop_profile: LoopProfile) -> str:
    if _loader.workers(loop_profile) < 2:
        return "one worker finishes its batches in their order"
    return "the script sets in_order itself" if loop_profile.loader.get("in_order") is False else ""


def apply(loop: Any, options: Options) -> None:
    """in_order of every DataLoader that has workers; refused by a torch before 2.6."""

    def check(call: Any) -> None:
        if "in_order" not in inspect.signature(call.cls.__init__).parameters:
            loop.refuse(f"{call.kind} has no argument in_order: torch 2.6 is the first that has")

    loop.loader(check)
    _loader.change_workers(loop, in_order=False)


def edit(script: Any, options: Options) -> None:
    if script.has_site("hf_arguments") and not script.has_site("loader"):
        raise CannotEdit("transformers.TrainingArguments has no such argument")
    script.set_arguments("loader", in_order="False")


OPTIMIZATION = Optimization(
    title="batches in the order in which they are ready",
    numerics="random",
    saves={"data": 1.0},
    needs=frozenset({"loader", "workers"}),
    prior=0.1,
    why_not=why_not,
    apply=apply,
    edit=edit,
)
