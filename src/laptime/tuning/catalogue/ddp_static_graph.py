"""DistributedDataParallel takes the first step's graph for all: no search for unused parameters after it.

Source: torch.nn.parallel.DistributedDataParallel, static_graph.
Lies when: the graph does change: torch stops with an error, or gradients are wrong.
"""

from typing import Any

from laptime.tuning.optimization import LoopProfile, Options

TITLE = "DistributedDataParallel with a static graph"
NUMERICS = "reassociated"
NEEDS = frozenset({"ddp", "!varying_shapes"})
CONFLICTS = frozenset({"find_unused_parameters"})
PRIOR = 0.2


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """A tenth of forward and backward; a fifth where unused parameters are searched for in each step."""
    part = 0.2 if "find_unused" in loop_profile.facts else 0.1
    return part * loop_profile.share("forward", "backward")


def apply(loop: Any, options: Options) -> None:
    loop.parallel(lambda call: call.arguments.update(static_graph=True))


def edit(script: Any, options: Options) -> None:
    script.set_arguments("parallel", static_graph="True")
