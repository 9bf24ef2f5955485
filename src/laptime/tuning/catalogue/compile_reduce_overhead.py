"""torch.compile with CUDA graphs: the whole step's kernels are launched at once.

Source: torch.compile, mode "reduce-overhead"; CUDA graphs need fixed addresses and fixed shapes.
Lies when: a step is much longer than its launches. A CUDA graph holds its memory until the process ends."""

from laptime.tuning.catalogue import _bounds, compile
from laptime.tuning.optimization import LoopProfile, Optimization, Options

MODE = {"mode": "reduce-overhead"}


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Return the bound of compile, or the host's time to start the kernels: the larger, at most
    nine tenths of forward and backward."""
    compute = loop_profile.share("forward", "backward", "other")
    launching = min(loop_profile.enqueue or 0.0, 0.9 * compute)
    return max(_bounds.bound_compile(loop_profile) * compute, launching)


OPTIMIZATION = Optimization(
    title="torch.compile, launches as CUDA graphs",
    numerics="reassociated",
    saves=bound,
    needs=frozenset({"cuda", "gcc", "!compiled", "!varying_shapes"}),
    gives=frozenset({"compiled"}),
    prior=0.4,
    compiles=True,
    apply=lambda loop, options: compile.apply(loop, MODE),
    edit=lambda script, options: compile.edit(script, MODE),
)
