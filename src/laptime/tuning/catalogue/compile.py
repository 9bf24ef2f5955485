"""torch.compile: chains of small operators become one kernel each, and Python is left out of the step.

Source: Ansel et al., PyTorch 2, ASPLOS 2024; torch.nn.Module.compile.
Lies when: the run is short. Compiling takes seconds to minutes, and pays back only after as many steps as
it costs.
"""

from laptime.tuning.catalogue import _bounds
from laptime.tuning.catalogue._compiling import apply as apply
from laptime.tuning.catalogue._compiling import edit as edit
from laptime.tuning.optimization import LoopProfile, Options

TITLE = "torch.compile"
NUMERICS = "reassociated"
NEEDS = frozenset({"gcc", "!compiled"})
GIVES = frozenset({"compiled"})
COMPILES = True
PRIOR = 0.3


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Sizes dynamic from the start where they are known to vary: else it compiles twice to find that out."""
    return [{"dynamic": True}] if "varying_shapes" in loop_profile.facts else [{}]


def bound(loop_profile: LoopProfile, options: Options) -> float:
    return _bounds.compiled(loop_profile) * loop_profile.share("forward", "backward", "other")
