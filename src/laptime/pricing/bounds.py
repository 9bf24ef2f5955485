"""What a machine cannot beat: the roofline of the measured operators, with the makers' peaks.

    seconds of a call >= max(sum over dtypes of FLOPs / peak, (bytes of weights - cache) / bandwidth)
    calls per second  <= accelerators / seconds, or 1 / seconds with all cores

Peaks are those that nothing of the kind exceeds: dense figures of datasheets; cores at the highest clock of
any server part. So a machine whose best case costs more than what was measured elsewhere is ruled out.

Source: Williams, Waterman and Patterson, Roofline (2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from laptime.probes.peaks import Ceiling, accelerator_ceiling, core_ceiling
from laptime.records.cost import Machine, Work

_CPU_CACHE, _DEVICE_CACHE = 2.25 * 2**30, 256 * 2.0**20
"""Last-level caches that nothing exceeds: two sockets of EPYC 9684X, the Infinity Cache of MI300X."""

_ONE_SOCKET = 16
"""Cores up to which a machine lies on one socket; more may have the memory of two."""

_ALSO: dict[str, tuple[str, ...]] = {"float32": ("tf32",)}
"""Formats that hardware may compute a dtype in, unasked."""
_LOOSE: dict[str, tuple[str, ...]] = {"float32": ("tf32", "bfloat16", "float16")}
"""The same where a setting or a runtime allows lower precision."""


class Bound(NamedTuple):
    """The best case. `rate`: calls per second. `seconds`: of one call, spread over all accelerators."""

    rate: float
    seconds: float
    limit: str


def bound(work: Work, machine: Machine, *, is_loose: bool = False) -> Bound | None:
    """The best that a machine can do; None where its peaks, or those of a dtype, are not known.

    Args:
        is_loose: the run may compute float32 in a lower precision (`may_lower`).
    """
    if machine.accelerator:
        ceiling, number = accelerator_ceiling(machine.accelerator), machine.accelerators
        bandwidth, cache = ceiling.socket_bandwidth if ceiling else None, _DEVICE_CACHE
        flops_of = ceiling.flops if ceiling else {}
    else:
        ceiling, number = core_ceiling(machine.cpu), 1.0
        cores = machine.cores or machine.vcpus or 0.0
        sockets = 1 if cores <= _ONE_SOCKET else 2
        bandwidth = sockets * ceiling.socket_bandwidth if ceiling and ceiling.socket_bandwidth else None
        flops_of, cache = _of_cores(ceiling, cores), _CPU_CACHE
    peaks = {dtype: _peak(dtype, flops_of, is_loose=is_loose) for dtype in work.flops}
    if not peaks or not all(peaks.values()):
        return None
    compute = sum(number_of / (peaks[dtype] or 1.0) for dtype, number_of in work.flops.items())
    memory = max(0.0, work.weights - cache) / bandwidth if bandwidth else 0.0
    seconds = max(compute, memory)
    return Bound(number / seconds, seconds / max(1.0, number), "compute" if compute >= memory else "memory")


def _of_cores(ceiling: Ceiling | None, cores: float) -> dict[str, float]:
    return {dtype: cores * flops for dtype, flops in ceiling.flops.items()} if ceiling and cores else {}


def _peak(dtype: str, flops: Mapping[str, float], *, is_loose: bool) -> float | None:
    also = (_LOOSE if is_loose else _ALSO).get(dtype, ())
    return (
        max((flops[name] for name in (dtype, *also) if name in flops), default=None)
        if dtype in flops
        else None
    )


def may_lower(knobs: Mapping[str, Any], backend: str) -> bool:
    """Whether float32 may be computed in lower precision: by a setting, or by the runtime unasked."""
    if backend != "torch":
        return True  # OpenVINO, XLA and ONNX Runtime's providers choose precision themselves
    lowered = knobs.get("torch.float32_matmul_precision", "highest") != "highest"
    return lowered or any("FPMATH" in name for name in knobs)


def fits(machine: Machine, *, host: float | None, device: float | None) -> str:
    """Why the memory that was measured is not there; "" where it is, or nobody knows.

    Args:
        host, device: bytes that the program needs there; None unknown.
    """
    gib = 2.0**30
    if machine.accelerator:
        whole = machine.accelerator_memory
        if device is not None and whole is not None and device > whole * gib:
            return f"it needs {device / gib:.1f} GiB, one {machine.accelerator} has {whole:g}"
        return ""
    if host is not None and machine.memory is not None and host > machine.memory * gib:
        return f"it needs {host / gib:.1f} GiB, the machine has {machine.memory:g}"
    return ""


def devices(machine: Machine) -> float:
    """Programs of one accelerator that run on it at the same time: one where the CPU computes."""
    return machine.accelerators if machine.accelerator else 1.0


def kinds(machines: Iterable[Machine]) -> set[bool]:
    """Whether machines compute on accelerators; both where some do and some do not."""
    return {bool(machine.accelerator) for machine in machines}
