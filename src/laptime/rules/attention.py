"""Attention is computed as matrix product, softmax, matrix product, with the whole score matrix in memory.

Lies when: the softmax belongs to something else whose last two dimensions happen to be a sequence.
Source: PyTorch's documentation of `scaled_dot_product_attention`; 5 % of the step is our own threshold.
"""

from __future__ import annotations

import json

from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.records.tables import OperatorRow
from laptime.rules._evidence import finding
from laptime.rules._reading import operators, per_step, share, times

THRESHOLD = 0.05
SHORTEST = 16
"""Sequence below which a softmax over the last dimension is more likely one over classes."""


def rule(profile: Profile) -> Finding | None:
    """Fire for a softmax over [batch, heads, queries, keys] beside batched products, none of them fused."""
    scores = [row for row in profile.operators_by_shape if _is_scores(row)]
    products = operators(profile, r"aten::(bmm|baddbmm)")
    if not scores or not products or operators(profile, r".*(scaled_dot_product|flash_attention|xformers).*"):
        return None
    device = bool(profile.overview.devices)
    parts = [*scores, *products]
    spent = per_step(profile, sum(row.device_self_ns if device else row.host_self_ns for row in parts))
    if share(profile, spent) < THRESHOLD:
        return None
    return finding(
        profile,
        "attention",
        f"attention runs as bmm, softmax over {_first(scores[0])} and bmm: {times(profile, spent)}",
        gain=spent,
        gain_is="all time in these softmaxes and batched products",
        limits=("device", "cpu", "unknown"),
        evidence={
            "softmax": scores[0].shapes,
            "calls_per_step": scores[0].calls / max(1, profile.overview.steps),
        },
        rows=[f"operators/{row.id}" for row in parts],
        change="torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask)",
        optimization="sdpa",
        stack=scores[0].stacks[0].frames if scores[0].stacks else [],
    )


def _first(row: OperatorRow) -> list[int]:
    try:
        shape = json.loads(row.shapes)[0]
    except (ValueError, IndexError, KeyError, TypeError):
        return []
    return shape if isinstance(shape, list) and all(isinstance(size, int) for size in shape) else []


def _is_scores(row: OperatorRow) -> bool:
    if row.name not in ("aten::_softmax", "aten::_safe_softmax"):
        return False
    shape = _first(row)
    return len(shape) in (3, 4) and shape[-1] >= SHORTEST and shape[-2] >= SHORTEST
