"""DistributedDataParallel takes the first step's graph for all: no search for unused parameters after it.

Source: torch.nn.parallel.DistributedDataParallel, static_graph.
Lies when: the graph does change: torch stops with an error, or gradients are wrong."""

from laptime.tuning.optimization import LoopProfile, Optimization, Options


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """A tenth of forward and backward; a fifth where unused parameters are searched for in each step."""
    part = 0.2 if "find_unused" in loop_profile.facts else 0.1
    return part * loop_profile.share("forward", "backward")


OPTIMIZATION = Optimization(
    title="DistributedDataParallel with a static graph",
    numerics="reassociated",
    saves=bound,
    needs=frozenset({"ddp", "!varying_shapes"}),
    conflicts=frozenset({"find_unused_parameters"}),
    prior=0.2,
    apply=lambda loop, options: loop.parallel(lambda call: call.arguments.update(static_graph=True)),
    edit=lambda script, options: script.set_arguments("parallel", static_graph="True"),
)
