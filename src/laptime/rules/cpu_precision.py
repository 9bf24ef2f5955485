"""Convolutions and products run in float32 on a CPU that multiplies bf16 faster.

Lies when: float32 is wanted for its accuracy; or shapes are small and the file does not have them.
Source: Intel's AMX and AVX512-BF16 have 16 and 2 times the float32 rate; 10 % of the step is our own. A step
of one linear layer under autocast, AVX512-BF16, was 1.13 times as fast at 17 MFLOP a product, 0.68 at 1.6."""

import re

from laptime.rules import _reading as reading
from laptime.rules._evidence import Finding, Profile, finding

RECURRENT = (
    r"aten::(lstm|gru|rnn_(tanh|relu)|mkldnn_rnn_layer.*|lstm_cell|gru_cell)|.*LstmBackward\d*|MkldnnRnn.*"
)
SPEEDUP = {"amx_bf16": 16.0, "avx512_bf16": 2.0}
LARGE = 16e6  # operations of a call from which on conversions cost less than they save


def rule(profile: Profile) -> Finding | None:
    """Fire if the machine's instruction sets are known (`laptime profile` writes them down)."""
    known = str(profile.facts.get("isa", "")).replace(",", " ").split()
    isa = next((name for name in SPEEDUP if name in known), None)
    if profile.overview.devices or isa is None:
        return None
    rows = [
        row
        for row in reading.operators(profile, reading.MATRIX)
        if row.host_self_ns > 0 and reading.in_loader(row) < 0.5
    ]
    plain = [
        row
        for row in rows
        if reading.only(row.dtypes, ("float",)) or (not row.dtypes and not _narrow(profile))
    ]
    recurrent = sum(row.host_total_ns for row in reading.operators(profile, RECURRENT))
    if reading.share(profile, reading.per_step(profile, recurrent)) >= reading.SERIOUS:
        return None  # their products are narrow, and autocast leaves the recurrence as it is
    # Share of the time of products and convolutions in large calls; 1 if shapes do not say.
    counted = profile.roofline.operators if profile.roofline is not None else []
    works = [row for row in counted if row.flop and row.kind.startswith(("matmul", "convolution"))]
    large = sum(row.total_ns for row in works if sum(row.flop.values()) >= LARGE * row.calls)
    part = large / sum(row.total_ns for row in works) if works else 1.0
    spent = reading.per_step(profile, sum(row.host_self_ns for row in plain)) * part
    if reading.share(profile, spent) < reading.NOTABLE:
        return None
    plain.sort(key=lambda row: -row.host_self_ns)
    return finding(
        profile,
        f"{reading.takes([row.name for row in plain])} {reading.times(profile, spent)} in"
        f" float32; this CPU has {isa}",
        gain_is=f"these operators at most {SPEEDUP[isa]:g} times as fast",
        limits=("cpu",),
        reaches={"compute": spent * (1 - 1 / SPEEDUP[isa])},
        evidence={"isa": isa, "operators": {row.name: row.host_self_ns for row in plain[:5]}},
        rows=[f"operators/{row.id}" for row in plain[:4]],
        change='with torch.autocast("cpu", dtype=torch.bfloat16): around forward and loss',
        optimization="bf16_autocast",
        stack=plain[0].stacks[0].frames if plain[0].stacks else [],
    )


def _narrow(profile: Profile) -> bool:
    names = [text for row in profile.operators for text in row.dtypes]
    return any(name in text for text in names for name in reading.NARROW) or any(
        re.search(r"bf16|f16", row.shapes) for row in profile.primitives
    )
