"""oneDNN spends the step on turning tensors from one layout into another.

Lies when: weights are reordered once and then kept (frozen inference): the observed step was the first.
Source: oneDNN's guide to its verbose output; 2 % of the step is our own threshold.
"""

from __future__ import annotations

from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding
from laptime.rules._facts import CONVOLUTION
from laptime.rules._reading import MATRIX, WORTH, operators, per_step, share, step, times

ONEDNN = rf"{MATRIX}|aten::(mkldnn_.*|_mkldnn.*|to_mkldnn|lstm|gru|convolution_backward.*|.*batch_norm.*|.*pool.*)"


def rule(profile: Profile) -> Finding | None:
    """Sum the reorders of the observed step."""
    rows = [row for row in profile.primitives if row.kind == "reorder"]
    inside = operators(profile, ONEDNN)
    # Primitives are timed in a step of their own, which writing them down makes slower than it is: they take no
    # longer than the operators that run them.
    most = per_step(profile, sum(row.host_self_ns for row in inside)) if inside else step(profile)
    spent = min(most, sum(row.total_ns for row in rows) * 1e-9)
    if not rows or share(profile, spent) < WORTH:
        return None
    convolves = any(row.kind == "convolution" for row in profile.primitives) or bool(operators(profile, CONVOLUTION))
    return finding(
        profile,
        "onednn-reorders",
        f"oneDNN reorders tensors {sum(row.calls for row in rows):,} times a step: {times(profile, spent)}",
        gain=spent,
        gain_is="all time in reorder primitives; faster convolutions in the other layout come on top",
        evidence={"shapes": [row.shapes for row in sorted(rows, key=lambda row: -row.total_ns)[:5]]},
        rows=[f"operators/{row.id}" for row in operators(profile, r"aten::(mkldnn_convolution|to_mkldnn)")],
        change="model.to(memory_format=torch.channels_last) and the same for the input"
        if convolves
        else "weights packed once: torch.compile(model) with freezing, or inference with mkldnn's prepacked linear",
        optimization="channels_last" if convolves else "",
    )
