"""How many gradients DistributedDataParallel sends at once: small buckets overlap early, large cost less.

Source: torch.nn.parallel.DistributedDataParallel, bucket_cap_mb; Li et al., PyTorch Distributed, VLDB 2020.
Lies when: ranks wait for the slowest of them, not for the network."""

from laptime.tuning.optimization import LoopProfile, Optimization, Options

SIZES = (50, 10, 100, 200)  # MB, nearest to the default of 25 first


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Sizes that make another number of buckets of this model."""
    megabytes = 4 * loop_profile.parameters / 1e6
    return [{"bucket_cap_mb": size} for size in SIZES if not megabytes or size < 2 * megabytes]


OPTIMIZATION = Optimization(
    title="size of gradient buckets",
    numerics="reassociated",
    # A third of the backward pass, which is what sending is hidden behind.
    saves={"backward": 1 / 3},
    needs=frozenset({"ddp"}),
    prior=0.2,
    propose=propose,
    why_not=lambda loop_profile: "" if propose(loop_profile) else "all gradients fit one bucket",
    apply=lambda loop, options: loop.parallel(
        lambda call: call.arguments.update(bucket_cap_mb=options["bucket_cap_mb"])
    ),
    edit=lambda script, options: script.set_arguments(
        "parallel", bucket_cap_mb=str(options["bucket_cap_mb"])
    ),
)
