"""Jobs of several ranks, as one rank's file or several of them tell."""

# ruff: noqa: E501  names of kernels are as long as they are

from __future__ import annotations

from typing import Any

from advice.made import parts
from fixtures.kineto import A100, H100, MI300X, V100, Recording

STEPS = 4


def job(rank: int, world: int) -> dict[str, Any]:
    """What the file says of the job."""
    return {
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world, "nccl_version": "2.21.5"}
    }


def _reduced(r: Recording, elements: int, us: float, **about: object) -> None:
    """A bucket of gradients is full: DDP's hook exchanges it, inside of the engine."""
    with r.op(
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 3, 1, **{"Fwd thread id": 0}
    ):
        r.collective("allreduce", elements, us, **about)  # type: ignore[arg-type]


def _wait(r: Recording, stream: int = 20) -> None:
    """The main stream goes on when the communication is done."""
    r.free[7] = max(r.free.get(7, 0.0), r.free.get(stream, 0.0))


def all_to_all() -> Recording:
    """Expert parallelism under DDP on an A100: tokens go out and back in every layer; gradients overlap."""
    r = Recording(A100, seed=51, **job(0, 8))
    for number in range(STEPS):
        with r.step(number + 3), r.annotation("DistributedDataParallel.forward"):
            parts.loader(r, 60)
            parts.upload(r)
            for _ in range(12):
                parts.block(r, 1_200, "fp16")
                r.collective("all_to_allv", 33_000_000, 520, dtype="Half", stream=24, joins=7)
                parts.linear(r, 700, "fp16")
                r.collective("all_to_allv", 33_000_000, 520, dtype="Half", stream=24, joins=7)
            with r.backward():
                for _ in range(6):
                    parts.block_backward(r, 4_500, "fp16")
                    r.collective("all_to_allv", 33_000_000, 520, dtype="Half", stream=24, joins=7)
                    _reduced(r, 6_500_000, 900)
            _wait(r)
            parts.adamw(r, 900, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def gradients_bf16() -> Recording:
    """A ResNet on eight MI300X whose gradients are bfloat16 already; a fifth of the step is their exchange."""
    r = Recording(MI300X, seed=52, **job(0, 8))
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            with r.annotation("DistributedDataParallel.forward"):
                parts.forward(r, 12, 9_000, "rocm")
            with r.backward():
                for _ in range(6):
                    parts.block_backward(r, 3_000, "rocm")
                    _reduced(r, 12_500_000, 4_300, dtype="BFloat16")
            _wait(r)
            parts.adamw(r, 900, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def gradients_float32() -> Recording:
    """float32 gradients over a slow network: the exchange outlasts the backward."""
    r = Recording(A100, seed=53, **job(0, 16))
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            with r.annotation("DistributedDataParallel.forward"):
                parts.forward(r, 12, 14_000, "fp16")
            with r.backward():
                for _ in range(8):
                    parts.block_backward(r, 3_500, "fp16")
                    _reduced(r, 6_553_600, 7_500, ranks=16)
            _wait(r)
            parts.adamw(r, 900, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def many_small_reductions() -> Recording:
    """A hand-written loop reduces every parameter by itself: 404 all-reduces a step on a V100."""
    r = Recording(V100, seed=54, **job(0, 2))
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            parts.forward(r, 12, 16_000, "fp16")
            parts.backward(r, 12, 32_000, "fp16")
            for _ in range(404):
                r.collective("allreduce", 20_000, 38, ranks=2, joins=7)
                with r.op("aten::div_", 4):
                    r.launch(parts.MUL, 2)
            parts.adamw(r, 900)
    r.sync()
    return r


def sharded_parameters() -> Recording:
    """FSDP: parameters are gathered too late, the device waits for them. bf16 throughout."""
    r = Recording(H100, seed=55, **job(0, 16))
    for number in range(STEPS):
        with r.step(number + 3):
            parts.loader(r, 60)
            parts.upload(r)
            for _ in range(24):
                with r.annotation("FullyShardedDataParallel.forward"):
                    r.collective("_allgather_base", 25_000_000, 1_000, dtype="BFloat16", ranks=16, joins=7)
                    parts.block(r, 1_300)
            with r.backward():
                for _ in range(24):
                    r.collective("_allgather_base", 25_000_000, 1_000, dtype="BFloat16", ranks=16, joins=7)
                    parts.block_backward(r, 2_600)
                    r.collective(
                        "_reduce_scatter_base", 25_000_000, 1_000, dtype="BFloat16", ranks=16, stream=28
                    )
            _wait(r, 28)
            parts.adamw(r, 900, kernel=parts.FUSED_ADAM)
    r.sync()
    return r


def uneven_experts() -> list[Recording]:
    """Four ranks of a mixture of experts; rank 2 gets most tokens, the others wait in all_to_all."""
    return [_expert_rank(rank) for rank in range(4)]


def _expert_rank(rank: int) -> Recording:
    r = Recording(H100, seed=60 + rank, **job(rank, 4))
    busy, idle = 3_400.0, 1_200.0
    r.random.uniform = lambda low, high: 1.0  # type: ignore[method-assign, assignment]  # one clock, one truth on all ranks
    for number in range(STEPS):
        with r.step(number + 3):
            for _ in range(10):
                parts.block(r, 1_500)
                r.collective("all_to_allv", 8_000_000, 400, dtype="BFloat16", ranks=4, stream=24, joins=7)
                parts.linear(r, busy if rank == 2 else idle)  # the experts of this rank
                wait = 400 if rank == 2 else 400 + busy - idle
                r.collective("all_to_allv", 8_000_000, wait, dtype="BFloat16", ranks=4, stream=24, joins=7)
            parts.adamw(r, 500, kernel=parts.FUSED_ADAM)
            r.sync()
    return r
