"""torch.compile that times several kernels for each matrix product and takes the fastest.

Source: torch.compile, mode "max-autotune".
Lies when: the run is short: it compiles for minutes."""

from laptime.tuning.catalogue import _bounds
from laptime.tuning.catalogue.compile import apply, edit
from laptime.tuning.optimization import LoopProfile, Optimization, Options

why_not = _bounds.no_products


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Propose CUDA graphs first, as torch does by default; none of them if there is no GPU."""
    if why_not(loop_profile):
        return []
    graphs: list[Options] = [{"mode": "max-autotune"}] if "cuda" in loop_profile.facts else []
    return [*graphs, {"mode": "max-autotune-no-cudagraphs"}]


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Return the bound of compile, and a tenth more for the picked kernels."""
    return (0.1 + _bounds.bound_compile(loop_profile)) * loop_profile.share("forward", "backward", "other")


OPTIMIZATION = Optimization(
    title="torch.compile, kernels picked by timing",
    numerics="reassociated",
    saves=bound,
    needs=frozenset({"gcc", "!compiled", "!varying_shapes"}),
    gives=frozenset({"compiled"}),
    prior=0.2,
    compiles=True,
    propose=propose,
    why_not=why_not,
    apply=apply,
    edit=edit,
)
