"""Gradients are views of the buckets that are sent: they are not copied, and not held twice.

Source: torch.nn.parallel.DistributedDataParallel, gradient_as_bucket_view.
Lies when: the script calls detach_() on gradients: that fails then.
"""

from typing import Any

from laptime.tuning.optimization import Options

TITLE = "gradients as views of buckets"
NUMERICS = "exact"
SAVES = {"backward": 0.1}
"""A tenth of the backward pass: two copies of each gradient."""
NEEDS = frozenset({"ddp"})
PRIOR = 0.3


def apply(loop: Any, options: Options) -> None:
    loop.parallel(lambda call: call.arguments.update(gradient_as_bucket_view=True))


def edit(script: Any, options: Options) -> None:
    script.set_arguments("parallel", gradient_as_bucket_view="True")
