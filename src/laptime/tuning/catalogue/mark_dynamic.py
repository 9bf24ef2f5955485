"""Sizes of a compiled model's inputs are dynamic from the start: a new shape does not compile again.

By default the first new size recompiles, and only then the dimension counts as dynamic; up to eight
versions, then the model runs uncompiled.

Source: "Dynamic shapes", PyTorch manual: torch._dynamo.config.assume_static_by_default, recompile_limit.
Lies when: sizes differ a few times and then never again: kernels for known sizes are faster."""

from typing import Any

from laptime.tuning.loop_profile import unmet_need
from laptime.tuning.optimization import Optimization, Options


def apply(loop: Any, options: Options) -> None:
    import torch._dynamo

    loop.set_attribute(torch._dynamo.config, "assume_static_by_default", False)


def edit(script: Any, options: Options) -> None:
    script.at_start(
        "torch._dynamo.config.assume_static_by_default = False", "import torch", "import torch._dynamo"
    )


NEEDS = frozenset({"compiled", "varying_shapes"})
OPTIMIZATION = Optimization(
    title="dynamic sizes in compiled code",
    numerics="reassociated",
    # All but a tenth of forward and backward: a step that compiles is nothing but that.
    saves={"forward": 0.9, "backward": 0.9},
    needs=NEEDS,
    prior=0.3,
    compiles=True,
    # Only if the script itself compiles: what `compile` adds is dynamic from the start.
    why_not=lambda loop_profile: unmet_need(NEEDS, loop_profile.facts),
    apply=apply,
    edit=edit,
)
