"""doctor's checks of accelerators: facts in, checks out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.probes.nvml import Gpu
from laptime.records.environment import Device, DoctorCheck, absent, ok, warn

BUSY = 0.02
"""Share of time with a kernel running from which a GPU counts as busy."""
SUSTAINED = 0.7
"""Share of the highest clock that boards hold under load; the vendor's base clock is near it."""


def gpus(devices: Sequence[Gpu]) -> Iterator[DoctorCheck]:
    """Each GPU of the machine: what it is, who else uses it, whether its clock can move."""
    for gpu in devices:
        if gpu.device:
            yield _is(gpu)
            yield _neighbours(gpu)
            yield from _unsteady(gpu)
        else:
            sentence = f"GPU {gpu.index} ({gpu.model}) is hidden by CUDA_VISIBLE_DEVICES"
            yield absent(f"gpu/{gpu.index}", sentence)


def _is(gpu: Gpu) -> DoctorCheck:
    parts = [gpu.model, show(gpu.memory, "B") if gpu.memory else ""]
    parts += [f"driver {gpu.driver}" if gpu.driver else ""]
    parts += [f"power limit {show(gpu.power_limit, 'W')}" if gpu.power_limit else ""]
    parts += [f"{gpu.temperature:.0f} °C" if gpu.temperature else ""]
    sentence = f"{gpu.device}: {', '.join(part for part in parts if part)}"
    return ok(f"gpu/{gpu.index}", sentence)


def _neighbours(gpu: Gpu) -> DoctorCheck:
    name = f"gpu/{gpu.index}/others"
    busy = f", busy {gpu.busy:.0%} of the time" if gpu.busy is not None and gpu.busy >= BUSY else ""
    if gpu.others or busy:
        who = count(len(gpu.others), "other program") if gpu.others else "somebody"
        used = f", {show(gpu.memory_used, 'B')} in use" if gpu.memory_used else ""
        return warn(
            name,
            f"{who} on {gpu.device}{busy}{used}",
            f"nvidia-smi -i {gpu.index} --query-compute-apps=pid,name,used_memory --format=csv",
        )
    return ok(name, f"nobody else on {gpu.device}")


def _unsteady(gpu: Gpu) -> Iterator[DoctorCheck]:
    """What holds the GPU back now, or can make its clock move."""
    if gpu.throttles:
        yield warn(
            f"gpu/{gpu.index}/throttled",
            f"{gpu.device} is held back now: {', '.join(gpu.throttles)}",
            f"nvidia-smi -i {gpu.index} -q -d PERFORMANCE,TEMPERATURE,POWER",
        )
    if gpu.clock is not None and gpu.max_clock is not None:
        steady = round(SUSTAINED * gpu.max_clock / 15e6) * 15  # boards step by 15 MHz
        yield warn(
            f"gpu/{gpu.index}/clock",
            f"the clock of {gpu.device} may move ({gpu.clock / 1e6:.0f} MHz now, "
            f"up to {gpu.max_clock / 1e6:.0f})",
            f"sudo nvidia-smi -i {gpu.index} -lgc {steady}   (back: -rgc)",
        )
    if gpu.persistent is False:
        yield warn(
            f"gpu/{gpu.index}/persistence",
            f"the driver of {gpu.device} is set up anew by every program (persistence mode off)",
            f"sudo nvidia-smi -i {gpu.index} -pm 1",
        )


def framework_devices(
    devices: Sequence[Device], sync: Mapping[str, float], *, visible: Sequence[Gpu], version: str
) -> Iterator[DoctorCheck]:
    """What torch sees, what waiting for it costs, and GPUs that it does not see."""
    for name, seconds in sync.items():
        if name != "cpu":
            yield ok(f"sync/{name}", f"waiting for an idle {name} costs {show(seconds, 's')}")
    names = {device.name for device in devices}
    missing = [gpu for gpu in visible if gpu.device and gpu.device not in names]
    if missing and version:
        listed = ", ".join(f"{gpu.device} ({gpu.model})" for gpu in missing)
        yield warn(
            "framework/torch/devices",
            f"torch {version} does not see {listed}",
            "python -c 'import torch; torch.zeros(1).cuda()'   says why",
        )
