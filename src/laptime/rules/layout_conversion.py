"""Kernels that only turn NCHW into NHWC and back.

Lies when: the conversion belongs to the input (one per batch), or only a few layers need the layout.
Source: NVIDIA's and PyTorch's guides to channels_last; 1 % of the step is our own threshold."""

from laptime.rules._evidence import DEVICE, Finding, Profile, finding
from laptime.rules._reading import kernels, per_step, share, times

THRESHOLD = 0.01
CONVERSION = r"(?i)nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|batched_transpose_\d|im2col_nhwc_transpose"
NEEDS = frozenset({"!beginning", "!server", "conv"})


def rule(profile: Profile) -> Finding | None:
    """Sum them up; keeping the model in channels_last leaves them out."""
    conversions = kernels(profile, CONVERSION)
    spent = per_step(profile, sum(row.total_ns for row in conversions))
    if not conversions or share(profile, spent) < THRESHOLD:
        return None
    number = sum(row.calls for row in conversions) / max(1, profile.overview.steps)
    return finding(
        profile,
        f"{number:,.0f} kernels a step only convert between NCHW and NHWC: {times(profile, spent)}",
        gain_is="all time in these kernels; faster convolutions in the other layout come on top",
        limits=DEVICE,
        evidence={"kernels": {row.name: row.total_ns for row in conversions[:5]}},
        rows=[f"kernels/{row.id}" for row in conversions],
        change="model.to(memory_format=torch.channels_last) and the same for the input",
        optimization="channels_last",
        reaches={"compute": spent},
    )
