"""The least cost on another machine, and a prediction for one that is not at hand.

**Work** of a call that no machine can leave out is what bounds rest on:

    products        2 m n k multiply-adds of dense matrix products and linear layers: all of them
    convolutions    as if their kernels were 1 x 1: no bilinear algorithm (Winograd, FFT) needs fewer products
    weights         bytes of the parameters that these read

Left out, so that the bound stays one: attention and batched products (masks let kernels skip parts),
recurrent layers (packed sequences), FFTs, sparse and quantized operators, everything elementwise.

**A bound** is the roofline of the measured operators, with the makers' peaks:

    seconds of a call >= max(sum over dtypes of FLOPs / peak, (bytes of weights - cache) / bandwidth)
    calls per second  <= accelerators / seconds, or 1 / seconds with all cores

Peaks are those that nothing of the kind exceeds: dense figures of datasheets; cores at the highest clock of
any server part. So a machine whose best case costs more than what was measured elsewhere is ruled out.

**A prediction** is made only between machines that were measured: the same program on at least three. The
share of its bound that each reached is taken for log-normal; a further machine of the same kind, whose bound
lies between theirs, gets its own bound times the geometric mean share, with Student's t interval for one new
draw. How wrong this is on the measured machines is told with it: each is predicted from the others.

Sources: Winograd, Arithmetic complexity of computations (1980): F(m, r) needs m + r - 1 products; Williams,
Waterman and Patterson, Roofline (2009).
Lies when: a compiler proves that an output is not used and drops the operators behind it; what limits the
program is not in the bound (launches, Python, the loader), and changes between machines."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from laptime.analysis.student_t import t_quantile
from laptime.kit.text import count
from laptime.probes.peaks import accelerator_ceiling, core_ceiling
from laptime.records.case import Case
from laptime.records.cost import Machine, Prediction, Work
from laptime.records.quantity import Quantity

PRODUCTS = ("mm", "addmm", "linear", "gemm", "fullyconnected")
"""Names, without their library's prefix, of operators whose counted FLOPs are all needed."""


def work_of(case: Case) -> Work | None:
    """Return the least work of one call of a case; None if nothing was counted, or none is needed."""
    receipt = case.details.receipt
    if receipt.least is not None:
        flops = {dtype: number for dtype, number in receipt.least.flops.items() if number}
        source = "dense products in full, convolutions as 1 x 1"
        return Work(flops=flops, weights=receipt.least.weights, source=source) if flops else None
    total = sum(
        number
        for name, number in receipt.counted.items()
        if name.rpartition(".")[2].rpartition("::")[2].lower() in PRODUCTS
    )
    if not total:
        return None
    dtype = str(case.axes.get("dtype", "float32"))
    source = "dense products alone: the run does not name the kernels of its convolutions"
    return Work(flops={dtype: total}, source=source)


_CPU_CACHE, _DEVICE_CACHE = 2.25 * 2**30, 256 * 2.0**20
"""Last-level caches that nothing exceeds: two sockets of EPYC 9684X, the Infinity Cache of MI300X."""
_ONE_SOCKET = 16  # cores up to which a machine lies on one socket; more may have the memory of two
_ALSO: dict[str, tuple[str, ...]] = {"float32": ("tf32",)}
"""Formats that hardware may compute a dtype in, unasked."""
_LOOSE: dict[str, tuple[str, ...]] = {"float32": ("tf32", "bfloat16", "float16")}
"""The same if a setting or a runtime allows lower precision."""


class Bound(NamedTuple):
    """The best case. `rate`: calls per second. `seconds`: of one call, spread over all accelerators."""

    rate: float
    seconds: float
    limit: str


def bound(work: Work, machine: Machine, *, is_loose: bool = False) -> Bound | None:
    """The best that a machine can do; None if its peaks, or those of a dtype, are not known. is_loose: the
    run may compute float32 in a lower precision (`may_lower`)."""
    if machine.accelerator:
        ceiling, number = accelerator_ceiling(machine.accelerator), machine.accelerators
        bandwidth, cache = ceiling.bandwidth if ceiling else None, _DEVICE_CACHE
        flops_of = ceiling.flops if ceiling else {}
    else:
        ceiling, number = core_ceiling(machine.cpu), 1.0
        cores = machine.cores or machine.vcpus or 0.0
        sockets = 1 if cores <= _ONE_SOCKET else 2
        bandwidth = sockets * ceiling.bandwidth if ceiling and ceiling.bandwidth else None
        flops_of, cache = {}, _CPU_CACHE
        if ceiling and cores:
            flops_of = {dtype: cores * flops for dtype, flops in ceiling.flops.items()}
    peaks = {dtype: _peak(dtype, flops_of, is_loose=is_loose) for dtype in work.flops}
    if not peaks or not all(peaks.values()):
        return None
    compute = sum(number_of / (peaks[dtype] or 1.0) for dtype, number_of in work.flops.items())
    memory = max(0.0, work.weights - cache) / bandwidth if bandwidth else 0.0
    seconds = max(compute, memory)
    return Bound(number / seconds, seconds / max(1.0, number), "compute" if compute >= memory else "memory")


def _peak(dtype: str, flops: Mapping[str, float], *, is_loose: bool) -> float | None:
    if dtype not in flops:
        return None
    also = (_LOOSE if is_loose else _ALSO).get(dtype, ())
    return max(flops[name] for name in (dtype, *also) if name in flops)


def may_lower(knobs: Mapping[str, Any], backend: str) -> bool:
    """Whether float32 may be computed in lower precision: by a setting, or by the runtime unasked."""
    if backend != "torch":
        return True  # OpenVINO, XLA and ONNX Runtime's providers choose precision themselves
    lowered = knobs.get("torch.float32_matmul_precision", "highest") != "highest"
    return lowered or any("FPMATH" in name for name in knobs)


def fits(machine: Machine, *, host: float | None, device: float | None) -> str:
    """Say why the memory that was measured is not there; "" if it is, or unknown.
    host, device: bytes that the program needs there; None unknown."""
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
    """Programs of one accelerator that run on it at the same time: one if the CPU computes."""
    return machine.accelerators if machine.accelerator else 1.0


def kinds(machines: Iterable[Machine]) -> set[bool]:
    """Whether machines compute on accelerators; both if some do and some do not."""
    return {bool(machine.accelerator) for machine in machines}


FEWEST = 3


class Reached(NamedTuple):
    """Calls per second that one accelerator, or all cores, of a machine reached, and their bound."""

    machine: Machine
    rate: float
    bound: float


def quality(reached: Sequence[Reached]) -> Prediction:
    """Whether anything can be predicted from these, and how wrong it is when one of them is left out."""
    names = [each.machine.name for each in reached]
    why_not = ""
    if len({*names}) < FEWEST:
        why_not = f"{count(len({*names}), 'machine')} measured, {FEWEST} are needed"
    elif len(kinds(each.machine for each in reached)) > 1:
        why_not = "some of the measured machines are CPUs, others have accelerators"
    if why_not:
        return Prediction(machines=names, why_not=why_not)
    errors = []
    for index, left_out in enumerate(reached):
        others = [_share(each) for at, each in enumerate(reached) if at != index]
        errors.append(abs(statistics.fmean(others) - _share(left_out)))
    return Prediction(machines=names, error=math.exp(statistics.fmean(errors)), worst=math.exp(max(errors)))


def predict(reached: Sequence[Reached], machine: Machine, bound: float) -> Quantity | str:
    """Calls per second of one accelerator, or of all cores, of a machine with this bound, for this one
    machine.
    Returns A text why that is not predicted."""
    if kinds([machine]) != kinds(each.machine for each in reached):
        return "the measured machines are of another kind"
    bounds = [each.bound for each in reached]
    if not min(bounds) <= bound <= max(bounds):
        return "its peak lies outside those of the measured machines"
    shares = [_share(each) for each in reached]
    mean, spread = statistics.fmean(shares), statistics.stdev(shares)
    reach = t_quantile(0.975, len(shares) - 1) * spread * math.sqrt(1 + 1 / len(shares))
    # No prediction beats the bound.
    low, middle, high = (bound * min(1.0, math.exp(mean + step)) for step in (-reach, 0.0, reach))
    return Quantity(middle, low, high, len(shares), "1/s")


def _share(reached: Reached) -> float:
    return math.log(reached.rate / reached.bound)
