"""Tokens per second of a language model's phases, and what decoding makes of the memory.

A step of decoding reads every weight and the whole cache for one token of each sequence, so that memory, not
arithmetic, bounds it (Pope et al., Efficiently Scaling Transformer Inference, MLSys 2023, section 2).

    tokens/s      tokens of one item x items/s
    bytes/token   (weights + cache of all sequences + their new entries) / sequences
    bytes/s       bytes of a step x steps/s, beside the copy bandwidth that was measured in the same process
"""

from __future__ import annotations

from laptime.analysis.stat import Stat
from laptime.records.case import Case
from laptime.records.quantity import Quantity


def token_rate(case: Case, rate: Stat | None) -> list[Stat]:
    """What there is to say of a language model's case; nothing of others.

    Args:
        rate: items per second.
    """
    llm = case.details.known_model.llm
    if llm is None or rate is None or rate.value is None:
        return []
    stats = [rate.scaled("tokens/rate", f"{llm.phase} tokens", llm.tokens, unit="1/s")]
    if llm.weight_bytes is None:
        return stats
    per_sequence = llm.cache_bytes * (1 + 1 / llm.context)
    per_token = llm.weight_bytes / case.batch + per_sequence
    note = f"at least: {llm.weight_bytes:,} B of weights, {llm.cache_bytes:,} B of cache a sequence"
    moved = rate.scaled("bytes/rate", "memory read while decoding", per_token, unit="B/s")
    stats += [
        Stat(
            tag="bytes/token",
            title="bytes moved per token",
            unit="B",
            quantity=Quantity(per_token, unit="B", exact=True),
            note=note,
        ),
        moved,
    ]
    if llm.bandwidth:
        share = per_token / llm.bandwidth
        stats.append(rate.scaled("bytes/share", "of measured copy bandwidth", share, unit="ratio"))
    return stats
