"""Energy of Jetson, Apple and AMD devices through the package `zeus`, if it is installed.

Zeus counts in millijoules. Its rails overlap (a Jetson's total holds CPU and GPU), so exactly those are
taken that cover the whole device once."""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from laptime.kit import system_files
from laptime.kit.extras import install
from laptime.probes.energy import Absence, CounterMeter, Meter

SOC_PERIOD = 0.1
AMD_PERIOD = 0.1


def open_meters(root: str = "/") -> tuple[list[Meter], Absence | None]:
    """Meters of the kinds of device that this machine has; nothing is imported if it has none."""
    kind = device_kind(root)
    if kind is None:
        return [], Absence("no Jetson, Apple or AMD device was found")
    if find_spec("zeus") is None:
        return [], Absence(f"{kind}: the package zeus is not installed", install("energy"))
    try:
        if kind == "AMD GPU":
            from zeus.device.gpu.amd import AMDGPUs, amdsmi_is_available

            meters = amd_meters(AMDGPUs().gpus) if amdsmi_is_available() else []
        else:
            from zeus.device.soc import get_soc

            meters = soc_meters(get_soc(), kind)
    except Exception as error:  # Zeus raises what its vendors' libraries raise
        return [], Absence(f"{kind}: zeus cannot read it ({type(error).__name__}: {error})")
    return (meters, None) if meters else ([], Absence(f"{kind}: zeus found no counter"))


def device_kind(root: str = "/") -> str | None:
    """Say which of Zeus's devices this machine has: "Jetson", "Apple", "AMD GPU" or None."""
    base = Path(root)
    board = system_files.text(base / "proc/device-tree/model") or ""
    if (base / "etc/nv_tegra_release").exists() or "Jetson" in board:
        return "Jetson"
    if sys.platform == "darwin":
        return "Apple"
    # The AMD compute driver's door; integrated graphics have it, too, and zeus then tells what it can read.
    return "AMD GPU" if (base / "dev/kfd").exists() else None


def soc_meters(soc: Any, kind: str) -> list[Meter]:
    """The meter of a system on a chip: its total rail, or the parts that add up to it."""
    first = soc.get_total_energy_consumption()
    parts = covering(first)
    if not parts:
        return []

    def read() -> float | None:
        with suppress(Exception):  # a reading that fails is no reading
            now = soc.get_total_energy_consumption()
            values = [getattr(now, part) for part in parts]
            return None if None in values else sum(values) * 1e-3
        return None

    words = " + ".join(part.removesuffix("_mj").replace("_energy", "").replace("_", " ") for part in parts)
    device = "mps" if kind == "Apple" else "cuda:0"
    return [CounterMeter("zeus:soc", read, device=device, covers=f"{kind}, {words}", period=SOC_PERIOD)]


def covering(reading: Any) -> list[str]:
    """Fields of a Zeus reading that together cover the device once."""

    def is_told(name: str) -> bool:
        return getattr(reading, name, None) is not None

    if is_told("total_energy_mj"):
        return ["total_energy_mj"]
    candidates = "cpu_energy_mj gpu_energy_mj cpu_total_mj gpu_mj gpu_sram_mj dram_mj ane_mj"
    return [name for name in candidates.split() if is_told(name)]


def amd_meters(gpus: Any) -> list[Meter]:
    """One meter for each AMD GPU whose counter agrees with its power (Zeus checks that for half a second)."""
    meters: list[Meter] = []
    for index, gpu in enumerate(gpus):
        if gpu.supports_get_total_energy_consumption():
            covers = f"cuda:{index} ({gpu.get_name()})"
            name = f"zeus:amd-{index}"
            meters.append(
                CounterMeter(name, _joules(gpu), device=f"cuda:{index}", covers=covers, period=AMD_PERIOD)
            )
    return meters


def _joules(gpu: Any) -> Callable[[], float | None]:
    def read() -> float | None:
        with suppress(Exception):  # a reading that fails is no reading
            return float(gpu.get_total_energy_consumption()) * 1e-3
        return None

    return read
