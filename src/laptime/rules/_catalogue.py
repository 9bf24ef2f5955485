"""Names of the optimizations that findings may point to: one place until each is a file of its own."""

from __future__ import annotations

NAMES = frozenset(
    {
        "num_workers",
        "prefetch_factor",
        "pin_memory",
        "uint8_transfer",
        "tf32",
        "bf16_autocast",
        "fp16_autocast",
        "channels_last",
        "compile",
        "compile_reduce_overhead",
        "mark_dynamic",
        "fused_optimizer",
        "set_to_none",
        "defer_logging",
        "threads",
        "activation_checkpointing",
        "expandable_segments",
        "sdpa",
        "batch_size",
        "ddp_bf16_hook",
        "ddp_gradient_as_bucket_view",
    }
)
