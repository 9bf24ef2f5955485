"""Gradients are views of the buckets that are sent: they are not copied, and not held twice.

Source: torch.nn.parallel.DistributedDataParallel, gradient_as_bucket_view.
Lies when: the script calls detach_() on gradients: that fails then."""

from laptime.tuning.optimization import Optimization

OPTIMIZATION = Optimization(
    title="gradients as views of buckets",
    numerics="exact",
    # A tenth of the backward pass: two copies of each gradient.
    saves={"backward": 0.1},
    needs=frozenset({"ddp"}),
    prior=0.3,
    apply=lambda loop, options: loop.parallel(
        lambda call: call.arguments.update(gradient_as_bucket_view=True)
    ),
    edit=lambda script, options: script.set_arguments("parallel", gradient_as_bucket_view="True"),
)
