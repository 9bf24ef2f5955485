"""Attention is computed as matrix product, softmax, matrix product, with the whole score matrix in memory.

Lies when: the softmax belongs to something else whose last two dimensions happen to be a sequence.
Source: PyTorch's documentation of `scaled_dot_product_attention`; 5 % of the step is our own threshold."""

import re
from math import prod

from laptime.records.tables import OperatorRow
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import operators, per_step, shapes, share, times

THRESHOLD = 0.05
PRODUCTS = r"aten::(bmm|baddbmm)"
SAVES = 2 / 3
"""The fused kernel has to compute the products, too; FlashAttention's paper measures up to 3 times."""
SHORTEST = 16  # sequence below which a softmax over the last dimension is more likely one over classes
NEEDS = frozenset({"!compiled", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Fire for a softmax over [batch, heads, queries, keys] beside batched products, none of them fused."""
    multiplied = [row for row in profile.operators_by_shape if re.fullmatch(PRODUCTS, row.name)]
    scores = [row for row in profile.operators_by_shape if _is_scores(row)]
    scores = [row for row in scores if any(_makes(product, _first(row)) for product in multiplied)]
    made = [_first(row) for row in scores]
    weighed = [[prod(shape[:-2]), *shape[-2:]] for shape in made]  # values are weighed with such scores
    products = [
        row
        for row in multiplied
        if any(_makes(row, shape) for shape in made) or any(first in weighed for first in _matrices(row)[:1])
    ]
    if not scores or not products or operators(profile, r".*(scaled_dot_product|flash_attention|xformers).*"):
        return None
    device = bool(profile.overview.devices)
    parts = [*scores, *products]
    spent = per_step(profile, sum(row.device_self_ns if device else row.host_self_ns for row in parts))
    if share(profile, spent) < THRESHOLD:
        return None
    return finding(
        profile,
        f"attention runs as bmm, softmax over {_first(scores[0])} and bmm: {times(profile, spent)}",
        gain_is="all time in these softmaxes and the products that make and use their scores, less the fused"
        " kernel's own products: at most two thirds",
        limits=("device", "cpu", "unknown"),
        reaches={"compute": spent * SAVES},
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
    return next(iter(shapes(row)), [])


def _is_scores(row: OperatorRow) -> bool:
    if row.name not in ("aten::_softmax", "aten::_safe_softmax"):
        return False
    shape = _first(row)
    return len(shape) in (3, 4) and shape[-1] >= SHORTEST and shape[-2] >= SHORTEST


def _matrices(row: OperatorRow) -> list[list[int]]:
    """The shapes of what is multiplied, [batch, rows, columns] each."""
    found = [shape for shape in shapes(row) if len(shape) == 3]
    return found[-2:] if len(found) >= 2 else []


def _makes(row: OperatorRow, scores: list[int]) -> bool:
    """Whether this product gives scores of such a shape: as many matrices, of queries times keys."""
    found = _matrices(row)
    if not found:
        return False
    (batch, queries, _), (_, _, keys) = found
    return [batch, queries, keys] == [prod(scores[:-2]), *scores[-2:]]
