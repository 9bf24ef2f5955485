"""No kernel uses the tensor cores, although operators could.

Lies when: a Triton kernel uses `tl.dot`, which its name does not show; or float32 is wanted for accuracy.
Source: the TensorBoard plugin's rule (compute capability 7 and later, no tensor-core time, eligible
operators), with tensor-core kernels up to Blackwell known, at least 5 % eligible, and silent for runs in half
precision. The bound on the gain: half-precision tensor cores have 8 times the float32 rate of a V100
(125 / 15.7 TFLOP/s) and 15 to 28 times that of an A100, H100 or B200 (312 / 19.5, 990 / 67, 2250 / 80:
NVIDIA's data sheets); other kernels become at most twice as fast, for half the bytes."""

import re

from laptime.kit.units import percent
from laptime.rules._evidence import DEVICE, Finding, Profile, finding
from laptime.rules._reading import MATRIX, NARROW, capability, operators, per_step, step

OLDEST = (7, 0)
NATIVE_BF16 = (8, 0)
ELIGIBLE = 0.05
UNUSED = 0.01
VOLTA_SPEEDUP, MATRIX_SPEEDUP, OTHER_SPEEDUP = 8.0, 30.0, 2.0
_NARROW_KERNEL = re.compile(r"half|bf16|bfloat16|fp16|f16|fp8|e4m3|int8", re.IGNORECASE)
NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Advise automatic mixed precision: bf16 if the device has it, else fp16."""
    able = capability(profile)
    uses = [use for use in profile.overview.devices if use.tensor_core_share is not None]
    if able is None or able < OLDEST or not uses or step(profile) <= 0:
        return None
    matrix = [row for row in operators(profile, MATRIX) if row.device_self_ns > 0]
    compute = sum(row.total_ns for row in profile.kernels if row.group != "communication")
    spent = sum(row.device_self_ns for row in matrix)
    eligible = max([spent / compute if compute else 0.0] + [use.tensor_core_eligible or 0.0 for use in uses])
    if max(use.tensor_core_share or 0.0 for use in uses) >= UNUSED or eligible < ELIGIBLE or _narrow(profile):
        return None
    eligible = min(1.0, eligible)
    device = per_step(profile, max(use.compute_ns for use in uses))
    bf16 = able >= NATIVE_BF16
    faster = MATRIX_SPEEDUP if bf16 else VOLTA_SPEEDUP
    gain = device * (eligible * (1 - 1 / faster) + (1 - eligible) * (1 - 1 / OTHER_SPEEDUP))
    name = profile.accelerators[0].name or "the device"
    return finding(
        profile,
        f"{name} has tensor cores, but no kernel uses them; {percent(eligible)} of their time is"
        " convolutions and matrix products that could",
        gain_is=f"eligible kernels at most {faster:g} times as fast, other kernels at most"
        f" {OTHER_SPEEDUP:g} times (half the bytes)",
        limits=DEVICE,
        reaches={"compute": gain},
        evidence={"tensor_core_share": 0.0, "eligible_share": eligible, "compute_s_per_step": device},
        rows=[f"operators/{row.id}" for row in sorted(matrix, key=lambda row: -row.device_self_ns)[:4]],
        change='with torch.autocast("cuda", dtype=torch.bfloat16): around forward and loss'
        if bf16
        else 'with torch.autocast("cuda", dtype=torch.float16): around forward and loss, '
        "and torch.amp.GradScaler for the backward",
        optimization="bf16_autocast" if bf16 else "fp16_autocast",
    )


def _narrow(profile: Profile) -> bool:
    """Whether the run is in half precision or below already."""
    if any(name in text for row in operators(profile, MATRIX) for text in row.dtypes for name in NARROW):
        return True
    total = sum(row.total_ns for row in profile.kernels)
    return sum(row.total_ns for row in profile.kernels if _NARROW_KERNEL.search(row.name)) > 0.1 * total
