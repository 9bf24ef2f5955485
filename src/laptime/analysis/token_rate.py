"""Tokens per second of a language model's phases, and what decoding makes of the memory.

A step of decoding reads every weight and the whole cache for one token of each sequence, so that memory, not
arithmetic, bounds it (Pope et al., Efficiently Scaling Transformer Inference, MLSys 2023, section 2).

    tokens/s      tokens of one item x items/s
    bytes/token   (weights + cache of all sequences + their new entries) / sequences
    bytes/s       bytes of a step x steps/s, beside the copy bandwidth that was measured in the same process
"""

from __future__ import annotations

from typing import Any

from laptime.analysis.stat import Stat
from laptime.records.case import Case


def token_rate(case: Case, rate: Stat | None) -> list[Stat]:
    """What there is to say of a language model's case; nothing of others.

    Args:
        rate: items per second.
    """
    llm: dict[str, Any] | None = case.details.get("model", {}).get("llm")
    if llm is None or rate is None or rate.value is None:
        return []
    tokens = llm["tokens"]
    stats = [_scaled("tokens/rate", f"{llm['phase']} tokens", rate, tokens, "1/s")]
    if "weight_bytes" not in llm:
        return stats
    per_sequence = llm["cache_bytes"] * (1 + 1 / llm["context"])
    per_token = llm["weight_bytes"] / case.batch + per_sequence
    note = f"at least: {llm['weight_bytes']:,} B of weights, {llm['cache_bytes']:,} B of cache a sequence"
    moved = _scaled("bytes/rate", "memory read while decoding", rate, per_token, "B/s")
    stats += [
        Stat(tag="bytes/token", title="bytes moved per token", unit="B", value=per_token, n=1, note=note),
        moved,
    ]
    if llm.get("bandwidth"):
        share = _scaled(
            "bytes/share", "of measured copy bandwidth", rate, per_token / llm["bandwidth"], "ratio"
        )
        stats.append(share)
    return stats


def _scaled(tag: str, title: str, rate: Stat, factor: float, unit: str) -> Stat:
    return Stat(
        tag=tag,
        title=title,
        unit=unit,
        value=(rate.value or 0.0) * factor,
        ci95=(rate.ci95[0] * factor, rate.ci95[1] * factor) if rate.ci95 else None,
        n=rate.n,
        regime=rate.regime,
        better="higher",
    )
