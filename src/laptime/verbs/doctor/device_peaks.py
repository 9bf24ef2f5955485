"""Devices as torch sees them, and their measured peaks, which are stored until the machine changes."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from laptime.kit.clock import utc_now
from laptime.launch import fresh_call
from laptime.probes import machine as software
from laptime.probes.cpu import Cpu
from laptime.probes.nvml import Gpu
from laptime.probes.peaks import Peak, cpu_peak, device_peak
from laptime.records.environment import Device, Environment, Rate
from laptime.store import cache

SECONDS = 4.0
"""Time for the measured peaks of each device."""

_SURVEY = "laptime.backends.torch.peaks:survey"
_TIMEOUT = 180.0


class DevicePeaks(Struct, frozen=True, kw_only=True):
    """What torch says about the devices; empty where it is not installed.

    Attributes:
        sync: seconds to wait for an idle device, by device.
        rates: measured peaks; `rates_from` is the time they were measured, "" when they were not.
    """

    devices: list[Device] = []
    libraries: dict[str, str] = {}
    knobs: dict[str, Any] = {}
    sync: dict[str, float] = {}
    rates: list[Rate] = []
    rates_from: str = ""


def device_peaks(
    environment: Environment,
    gpus: list[Gpu],
    processor: Cpu,
    *,
    quick: bool = False,
    fresh: bool = False,
    keep: bool = True,
) -> DevicePeaks:
    """Ask torch in a process of its own.

    Args:
        quick: measure no peaks, but report those that are stored.
        fresh: measure them although they are stored.
        keep: store what is measured; not on a machine that others are using.

    Raises:
        Died, Hung: torch is installed, but does not answer.
    """
    if software.installed("torch") is None:
        return DevicePeaks()
    key = _key(environment, gpus)
    stored = None if fresh else cache.get("peaks", key)
    seconds = 0.0 if stored or quick else SECONDS
    answer = fresh_call.call(_SURVEY, {"seconds": seconds}, timeout=_TIMEOUT)
    when = utc_now() if seconds else (stored or {}).get("when", "")
    rows = answer.pop("rates") if seconds else (stored or {}).get("rates", [])
    if seconds and keep:
        cache.put("peaks", key, {"when": when, "rates": rows})
    devices = msgspec.convert(answer["devices"], list[Device])
    ceilings = {device.name: _ceiling(device, gpus, processor, environment) for device in devices}
    return DevicePeaks(
        devices=devices,
        libraries=answer["libraries"],
        knobs=answer["knobs"],
        sync=answer["sync"],
        rates=[_rate(row, ceilings.get(row["device"])) for row in rows],
        rates_from=when,
    )


def _key(environment: Environment, gpus: list[Gpu]) -> str:
    """All that a measured peak depends on: machine, limits, settings, torch, GPUs and their power limits."""
    parts = [environment.fingerprint, software.installed("torch")]
    parts += [f"{gpu.uuid} {gpu.driver} {gpu.power_limit} {gpu.device}" for gpu in gpus]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def _ceiling(device: Device, gpus: list[Gpu], processor: Cpu, environment: Environment) -> Peak | None:
    if device.name == "cpu":
        return cpu_peak(processor, usable=environment.usable_cpus)
    details = dict(device.details)
    if capability := details.get("compute_capability"):
        details["capability"] = tuple(int(part) for part in str(capability).split("."))
    gpu = next((gpu for gpu in gpus if gpu.device == device.name), None)
    if gpu is not None and gpu.max_clock:
        details["max_clock"] = gpu.max_clock
    return device_peak(device.model, memory=device.memory, details=details)


def _rate(row: dict[str, Any], ceiling: Peak | None) -> Rate:
    if ceiling is not None:
        limit = ceiling.bandwidth if row["kind"] == "copy" else ceiling.flops.get(row["dtype"])
        row = {**row, "ceiling": limit, "ceiling_source": ceiling.source if limit else ""}
    return msgspec.convert(row, Rate)
