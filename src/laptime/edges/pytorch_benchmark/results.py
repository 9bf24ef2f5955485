"""Parts of the results in the shape that pytorch-benchmark gives them."""

import math
import platform
from collections.abc import Mapping
from statistics import stdev
from typing import Any

from laptime.analysis.evidence import select
from laptime.analysis.summary import main_throughput, summarize
from laptime.backends._shared import torch
from laptime.backends.torch import place
from laptime.probes import nvml
from laptime.records.case import Case
from laptime.records.environment import Device, Environment
from laptime.records.run import Run


def by_batch(values: Mapping[int, Any]) -> dict[str, Any]:
    """Keyed by name: `batch_size_8`."""
    return {f"batch_size_{batch}": value for batch, value in sorted(values.items())}


def timing(seconds: list[float]) -> dict[str, Any]:
    """Metrics of all timed runs of one program, and the same in words.

    `batches_per_second_mean` is runs over their total time, so it is 1 / `seconds_per_batch_mean`; a mean of
    the single rates would be larger. The other rates are those of single runs. Standard deviations are those
    of a sample (n - 1); 0 for one run."""
    rates = [1.0 / value if value > 0 else math.inf for value in seconds]
    mean = math.fsum(seconds) / len(seconds)
    metrics: dict[str, float] = {}
    words = {}
    for name, key, average, values, show in (
        ("batches_per_second", "batches_per_second", 1.0 / mean if mean > 0 else math.inf, rates, number),
        ("batch_latency", "seconds_per_batch", mean, seconds, duration),
    ):
        deviation = stdev(values) if len(values) > 1 else 0.0
        low, high = min(values), max(values)
        told = {"mean": average, "std": deviation, "min": low, "max": high}
        metrics |= {f"{key}_{statistic}": value for statistic, value in told.items()}
        words[name] = f"{show(average)} +/- {show(deviation)} [{show(low)}, {show(high)}]"
    return {"metrics": metrics, "human_readable": words}


def memory(before: int, peak: int, after: int) -> dict[str, Any]:
    """Bytes on the device before, at the peak of, and after one call with its copies."""
    megabytes = {"pre_inference": before, "max_inference": peak, "post_inference": after}
    in_words = {name: size(value) for name, value in megabytes.items()}
    return {f"{name}_bytes": value for name, value in megabytes.items()} | in_words


def energy(joules: float) -> dict[str, float]:
    """Energy of one call with its copies; 1 kWh is 3.6 MJ."""
    return {"joules": joules, "kWh": joules / 3.6e6}


def machine_info(environment: Environment) -> dict[str, Any]:
    """System, CPU, memory and GPUs; what cannot be read is None."""
    import psutil

    system, ram = platform.uname(), psutil.virtual_memory()
    gpus = [{"name": gpu.model, "memory": f"{(gpu.memory or 0) / 2**20:.0f} MiB"} for gpu in _gpus()]
    # The highest clock, else the one now; virtual machines hide one or both, Apple's chips raise.
    try:
        frequency = psutil.cpu_freq()
    except (OSError, RuntimeError, NotImplementedError, AttributeError):
        clock = None
    else:
        mhz = (frequency.max or frequency.current) if frequency else 0
        clock = f"{mhz / 1000:.2f} GHz" if mhz else None
    return {
        "system": {"system": system.system, "node": system.node, "release": system.release},
        "cpu": {
            "model": environment.cpu,
            "architecture": system.machine,
            "cores": {"physical": environment.physical_cores, "total": environment.vcpus},
            "frequency": clock,
        },
        "memory": {"total": size(ram.total), "used": size(ram.used), "available": size(ram.available)},
        "gpus": gpus or None,
    }


def _gpus() -> list[Device]:
    """All GPUs of the machine as the driver tells them, else those that torch sees."""
    try:
        return [gpu.as_device() for gpu in nvml.Nvml().gpus()] if nvml.has_hardware() else []
    except (ImportError, OSError):
        names = [name for name in place.present() if name.startswith(("cuda", "xpu"))]
        return [device for name in names for device in place.describe(torch.device(name))]


def evidence(run: Run, *, why_no_energy: dict[str, Any]) -> dict[str, Any]:
    """Return what pytorch-benchmark has no field for: verdict, medians with intervals, the run itself."""
    import msgspec

    reasons = [
        f"batch_size_{case.batch}: {check.sentence}"
        for case in run.cases
        for check in case.checks
        if check.outcome in ("warn", "fail")
    ]
    return {
        "verdict": run.trust,
        "reasons": reasons,
        "latency": by_batch({case.batch: _latency(case) for case in run.cases}),
        "energy_not_measured": why_no_energy,
        "run": msgspec.to_builtins(run),
    }


def _latency(case: Case) -> dict[str, Any]:
    stats = summarize(case)
    latencies: dict[str, Any] = {}
    for series in case.series:
        if series.metric.tag != "latency" or series.regime is None:
            continue
        median = stats[f"latency/{series.regime}/median"]
        latencies[series.regime] = {
            "median": median.value,
            "ci95": list(median.ci95) if median.ci95 else None,
            "unit": "s",
            "n": median.n,
            "disturbed": select(series).disturbed,
            "warm_up": select(series).warm_up,
        }
    rate = main_throughput(case)
    latencies["samples_per_second"] = None if rate is None else rate.value
    return latencies


def block(data: Mapping[str, Any]) -> str:
    """A mapping as lines of YAML, keys sorted, as the package prints it; ends in a newline."""
    import yaml

    return str(yaml.safe_dump(dict(data), default_flow_style=False, allow_unicode=True, width=math.inf))


def number(value: float) -> str:
    """A plain number in thousands: `5.29 M`."""
    return _scale(value, 1000, ("", " K", " M", " G", " T", " P"))


def size(value: float) -> str:
    """Bytes in powers of 1024, and named so: `15.61 GiB`."""
    return _scale(value, 1024, (" B", " KiB", " MiB", " GiB", " TiB", " PiB"))


def _scale(value: float, step: int, names: tuple[str, ...]) -> str:
    for name in names[:-1]:
        if abs(value) < step:
            return f"{value:.2f}{name}"
        value /= step
    return f"{value:.2f}{names[-1]}"


def duration(seconds: float) -> str:
    """`1.234 s`, `25.910 ms`, `3.100 us`."""
    if seconds >= 1.0:
        return f"{seconds:.3f} s"
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3f} us"
