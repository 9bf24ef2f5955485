"""Which changes can be advised: what the optimizations behind them need, and what torch accepts.

The tuner's catalogue refuses an optimization whose needs are not met; whoever is sent there by a finding
should not be turned away. The tables here are checked against the catalogue and against torch's signatures
(tests/contract/test_advised_changes.py).
"""

from __future__ import annotations

from laptime.records.profile import Profile
from laptime.rules import _facts

NEEDS: dict[str, frozenset[str]] = {
    "activation_checkpointing": frozenset({"!compiled"}),
    "batch_size": frozenset({"loader"}),
    "channels_last": frozenset({"conv"}),
    "compile": frozenset({"!compiled"}),
    "compile_reduce_overhead": frozenset({"cuda", "!compiled"}),
    "expandable_segments": frozenset({"cuda"}),
    "fp16_autocast": frozenset({"cuda"}),
    "num_workers": frozenset({"loader"}),
    "pin_memory": frozenset({"loader", "cuda"}),
    "tf32": frozenset({"cuda"}),
    "uint8_transfer": frozenset({"loader"}),
}
"""Of each optimization that a rule names: its needs, as far as a trace can tell them."""

FUSED = ("Adagrad", "Adam", "AdamW", "SGD")
FOREACH = (*FUSED, "ASGD", "Adadelta", "Adafactor", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop")
"""Optimizers of torch.optim that take `fused` and `foreach`. Adagrad's fused version runs on the CPU only."""


def possible(profile: Profile, optimization: str) -> str:
    """The optimization, "" where the tuner would refuse it."""
    if profile.workload is None or not optimization:
        return optimization
    if profile.workload.server or profile.workload.kind == "unknown":
        return ""  # the tuner starts scripts and models, no servers
    return "" if _facts.unmet(NEEDS.get(optimization, frozenset()), _facts.of(profile)) else optimization


def optimizer_switch(profile: Profile, name: str) -> str:
    """`fused=True`, `foreach=True`, or "" where this optimizer has neither."""
    fused = name in FUSED and not (name == "Adagrad" and profile.overview.devices)
    return "fused=True" if fused else "foreach=True" if name in FOREACH else ""
