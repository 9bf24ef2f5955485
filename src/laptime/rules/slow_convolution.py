"""Convolutions or products on the CPU run outside of oneDNN, or in its plain reference code.

Lies when: the dtype (float64, integers) leaves no choice.
Source: oneDNN names its reference implementations `ref` and `simple`; 5 % of the step is our own threshold.
"""

import re

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import operators, per_step, share, step, takes, times

THRESHOLD = 0.05
PLAIN = re.compile(r"^(ref|simple)\b")
HEAVY = ("convolution", "deconvolution", "matmul", "inner_product", "pooling")
OUTSIDE = r"aten::(_slow_conv\w*|slow_conv\w*|thnn_conv\w*|_convolution_mode_slow)"


def rule(profile: Profile) -> Finding | None:
    """Name what runs slowly. Without an accelerator only."""
    if profile.overview.devices:
        return None
    plain = [row for row in profile.primitives if row.kind in HEAVY and PLAIN.match(row.implementation)]
    outside = operators(profile, OUTSIDE)
    spent = sum(row.total_ns for row in plain) * 1e-9 + per_step(
        profile, sum(row.host_self_ns for row in outside)
    )
    spent = min(step(profile), spent)
    if share(profile, spent) < THRESHOLD:
        return None
    names = [f"{row.kind} ({row.implementation})" for row in plain] + [row.name for row in outside]
    return finding(
        profile,
        f"{takes(list(dict.fromkeys(names)))} {times(profile, spent)} outside of oneDNN's fast code",
        gain_is="all time in these",
        limits=("cpu",),
        reaches={"compute": spent},
        evidence={"operators": names[:5]},
        rows=[f"operators/{row.id}" for row in outside],
        change='model.to("mps"): PyTorch for the Mac has no oneDNN'
        if _on_mac(profile)
        else "float32 or bf16 tensors, groups and dilation that oneDNN supports",
        stack=next((row.stacks[0].frames for row in outside if row.stacks), []),
    )


def _on_mac(profile: Profile) -> bool:
    """Judge by the system that laptime profiled on; for a file by the paths in its stacks."""
    frames = (frame for row in profile.operators for place in row.stacks for frame in place.frames)
    return profile.facts.get("os") == "Darwin" or any(
        "/Users/" in frame or "/opt/homebrew/" in frame or "/Library/Frameworks/" in frame for frame in frames
    )
