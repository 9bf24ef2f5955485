"""Matrix products run in float32 on a device that has TF32.

Lies when: float32 is wanted for its accuracy (TF32 keeps 10 bits of the mantissa), or the products are so
narrow that memory limits them.
Source: PyTorch's performance guide; 2 % of the step is our own threshold. TF32 has 8 to 15 times the float32
rate (A100 156 / 19.5, B200 1200 / 80 TFLOP/s: NVIDIA's data sheets)."""

from laptime.rules import _reading as reading
from laptime.rules._evidence import DEVICE, Finding, Profile, finding

OLDEST = (8, 0)
SPEEDUP = 15.0
UNUSED = 0.01
BY_NAME = r"(^|_)sgemm(_|$)|^(maxwell|volta|turing|ampere)_scudnn_|ffma"
"""Kernels of cuBLAS, cuDNN and CUTLASS that multiply float32 without tensor cores."""
HALF = (7, 0), 8.0
"""Devices that have tensor cores for half precision and none for TF32, and what these gain (V100, T4)."""
NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Fire for float32 operators of which no kernel used tensor cores; without operators by name."""
    if not reading.operators(profile, reading.MATRIX):
        return _by_name(profile)
    able = reading.capability(profile)
    if able is None or able < OLDEST:
        return None
    plain = [
        row
        for row in reading.operators(profile, reading.MATRIX)
        if row.device_self_ns > 0
        and (row.tensor_core_self or 0.0) < UNUSED
        and reading.only(row.dtypes, ("float",))
    ]
    spent = reading.per_step(profile, sum(row.device_self_ns for row in plain))
    if reading.share(profile, spent) < reading.WORTH:
        return None
    plain.sort(key=lambda row: -row.device_self_ns)
    return finding(
        profile,
        f"{reading.takes([row.name for row in plain])} {reading.times(profile, spent)} in"
        " float32, without tensor cores",
        gain_is=f"these operators' kernels at most {SPEEDUP:g} times as fast",
        limits=DEVICE,
        reaches={"compute": spent * (1 - 1 / SPEEDUP)},
        evidence={"operators": {row.name: row.device_self_ns for row in plain[:5]}},
        rows=[f"operators/{row.id}" for row in plain[:4]],
        change='torch.set_float32_matmul_precision("high")',
        optimization="tf32",
        stack=plain[0].stacks[0].frames if plain[0].stacks else [],
    )


def _by_name(profile: Profile) -> Finding | None:
    """For files that show kernels and no operators, as those of Nsight Systems do."""
    able, rows = reading.capability(profile), reading.kernels(profile, BY_NAME)
    spent = reading.per_step(profile, sum(row.total_ns for row in rows))
    if able is None or able < HALF[0] or reading.share(profile, spent) < reading.NOTABLE:
        return None
    narrow, faster = able < OLDEST, HALF[1] if able < OLDEST else SPEEDUP
    rows.sort(key=lambda row: -row.total_ns)
    gain = spent * (1 - 1 / faster)
    return finding(
        profile,
        f"{reading.takes([row.name for row in rows])} {reading.times(profile, spent)} in"
        " float32, without tensor cores",
        gain_is=f"these kernels at most {faster:g} times as fast",
        limits=DEVICE,
        reaches={"compute": gain},
        evidence={"kernels": {row.name: row.total_ns for row in rows[:5]}},
        rows=[f"kernels/{row.id}" for row in rows[:4]],
        change='half precision: torch.autocast("cuda", dtype=torch.float16); cublasGemmEx'
        if narrow
        else 'TF32: torch.set_float32_matmul_precision("high"); CUBLAS_TF32_TENSOR_OP_MATH',
        optimization="fp16_autocast" if narrow else "tf32",
    )
