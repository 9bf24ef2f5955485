"""Gradients are sent between ranks as bfloat16: half the bytes.

Source: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook.
Lies when: ranks do not wait for the network."""

from typing import Any

from laptime.tuning.optimization import Optimization, Options

HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"


def apply(loop: Any, options: Options) -> None:
    """A hook of each DistributedDataParallel. It stays until the process ends: torch takes none off."""

    def register(parallel: Any) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

        parallel.register_comm_hook(None, bf16_compress_hook)

    loop.parallels(register)


def edit(script: Any, options: Options) -> None:
    script.at_start(f"from {HOOKS} import bf16_compress_hook")
    script.after_model("{model}.register_comm_hook(None, bf16_compress_hook)")


OPTIMIZATION = Optimization(
    title="gradients sent as bfloat16",
    numerics="precision",
    # Half of the backward pass: no more than that can be waiting for half of the bytes.
    saves={"backward": 0.5},
    needs=frozenset({"ddp"}),
    prior=0.3,
    apply=apply,
    edit=edit,
)
