"""Energy of CPU packages and memory from RAPL counters (Intel, and AMD from Zen on) in /sys/class/powercap.

A package holds its cores; they are not added again. Memory (dram) is not in the package. The zone psys
holds everything and is left out, for it would count the packages twice."""

from pathlib import Path

from laptime.kit import system_files
from laptime.probes.cpu import cpu
from laptime.probes.energy import Absence, CounterMeter, Meter

PERIOD = 0.001
"""RAPL counters are updated about every millisecond (Intel SDM, volume 3, chapter on power management)."""
_COUNTED = ("package", "dram")
MODPROBE = "sudo modprobe intel_rapl_msr"
CHMOD = "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"


def open_meters(root: str = "/") -> tuple[list[Meter], Absence | None]:
    """One meter for each package and each memory domain that can be read."""
    folder = Path(root) / "sys/class/powercap"
    zones = [zone for zone in sorted(folder.glob("intel-rapl:*")) if _name(zone).startswith(_COUNTED)]
    if not zones:
        if cpu(root).guest:
            return [], Absence("the hypervisor hides the energy counters of the CPU (RAPL)")
        return [], Absence("no energy counters of the CPU (RAPL) in /sys/class/powercap", MODPROBE)
    if any(system_files.number(zone / "energy_uj") is None for zone in zones):
        return [], Absence("the energy counters of the CPU (RAPL) may be read by root only", CHMOD)
    return [_meter(zone) for zone in zones], None


def _name(zone: Path) -> str:
    return system_files.text(zone / "name") or ""


def _meter(zone: Path) -> Meter:
    name = label = _name(zone)
    if name.startswith("dram"):  # intel-rapl:1:0 lies below package 1
        label = f"dram-{zone.name.split(':')[1]}"
    wraps = system_files.number(zone / "max_energy_range_uj")

    def read() -> float | None:
        microjoules = system_files.number(zone / "energy_uj")
        return None if microjoules is None else microjoules * 1e-6

    return CounterMeter(
        f"rapl:{label}",
        read,
        device="cpu",
        covers=f"CPU {label.replace('-', ' ')}" if name.startswith("package") else f"memory {label}",
        period=PERIOD,
        wraps_at=None if wraps is None else wraps * 1e-6,
    )
