"""Gradients are views of the buckets that are sent: they are not copied, and not held twice.

Source: torch.nn.parallel.DistributedDataParallel, gradient_as_bucket_view.
Lies when: the script calls detach_() on gradients: that fails then.
"""

from typing import Any

from laptime.tuning.optimization import Optimization, Options


def apply(loop: Any, options: Options) -> None:
    loop.parallel(lambda call: call.arguments.update(gradient_as_bucket_view=True))


OPTIMIZATION = Optimization(
    title="gradients as views of buckets",
    numerics="exact",
    # A tenth of the backward pass: two copies of each gradient.
    saves={"backward": 0.1},
    needs=frozenset({"ddp"}),
    prior=0.3,
    apply=apply,
    edit=lambda script, options: script.set_arguments("parallel", gradient_as_bucket_view="True"),
)
