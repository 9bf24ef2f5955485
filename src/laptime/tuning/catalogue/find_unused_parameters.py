"""DistributedDataParallel does not search for unused parameters if there are none.

Source: torch.nn.parallel.DistributedDataParallel, find_unused_parameters: "extra overhead" in each step.
Lies when: some parameters are unused in some steps: then the next step stops with an error."""

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import LoopProfile, Optimization


def look(hooks: Any) -> dict[str, int]:
    """Return how many trained parameters have no gradient after a step."""
    parameters = [parameter for model in hooks.models for parameter in model.parameters()]
    gradients = [parameter.grad for parameter in parameters if parameter.requires_grad]
    unused = sum(gradient is None for gradient in gradients)
    # Where the step ends with dropping all gradients, none of them says anything.
    return {"unused": unused if unused < len(gradients) else 0}


def why_not(loop_profile: LoopProfile) -> str:
    unused = loop_profile.detail("find_unused_parameters", "unused", 0)
    return f"{unused} parameters are unused" if unused else ""


OPTIMIZATION = Optimization(
    title="no search for unused parameters",
    numerics="exact",
    saves={"forward": 0.1, "backward": 0.1},
    needs=frozenset({"ddp", "find_unused"}),
    conflicts=frozenset({"ddp_static_graph"}),
    why_not=why_not,
    look=look,
    apply=lambda loop, options: loop.parallel(
        lambda call: call.arguments.update(find_unused_parameters=False)
    ),
    edit=lambda script, options: (
        by_trainer(script, hf={"ddp_find_unused_parameters": "False"})
        or script.set_arguments("parallel", find_unused_parameters="False")
    ),
)
