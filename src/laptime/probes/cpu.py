"""The CPU: its name, how many there really are, what instructions it knows, how it is clocked.

A vCPU is a logical CPU, mostly one of two hyperthreads of a core. An OCPU is a physical core. Speed goes
with physical cores, so the two are told apart wherever the machine lets them be."""

import os
import platform
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from laptime.kit import system_files
from laptime.kit.text import count

_X86 = """
avx avx2 fma f16c avx512f avx512_vnni avx512_bf16 avx512_fp16 avx_vnni amx_tile amx_bf16 amx_int8 amx_fp16
"""
_ARM = "asimd asimdhp asimddp i8mm bf16 sve sve2 sme"
ISA = tuple(f"{_X86} {_ARM}".split())  # names in /proc/cpuinfo of the instruction sets that matter for speed

# Linux, arch/arm64/include/asm/cputype.h: implementer and part numbers of the main id register.
_ARM_IMPLEMENTERS = {"0x41": "Arm", "0xc0": "Ampere", "0x6d": "Microsoft", "0x4e": "NVIDIA", "0x61": "Apple"}
_ARM_PARTS = {
    ("Arm", "0xd0c"): "Neoverse N1",
    ("Arm", "0xd40"): "Neoverse V1",
    ("Arm", "0xd4f"): "Neoverse V2",
    ("Arm", "0xd49"): "Neoverse N2",
    ("Arm", "0xd42"): "Cortex-A78AE",
    ("Ampere", "0xac3"): "AmpereOne",
    ("Ampere", "0xac4"): "AmpereOne",
    ("Microsoft", "0xd49"): "Azure Cobalt 100",
}


class Cpu(Struct, frozen=True, kw_only=True):
    """The machine's facts about its CPUs; None for one that it does not report."""

    model: str  # its name
    vendor: str  # GenuineIntel, AuthenticAMD, Arm, Ampere ..
    # family, code, stepping: numbers that tell the microarchitecture (`code`: x86 model or Arm part)
    family: int | None
    code: int | None
    stepping: int | None
    vcpus: int  # logical CPUs that are online
    physical_cores: int | None  # cores; None when a hypervisor may hide which logical CPUs share one
    affinity: list[int]  # logical CPUs that this process may run on
    # what these are where they are some of the machine's, `2 on 1 core`; see `Environment.cpu_kind`
    kind: str = ""
    isa: list[str]  # instruction sets that matter for speed, in a fixed order
    guest: bool | None  # whether a hypervisor is seen in the CPU's flags; None when the flags cannot tell
    governor: str | None  # cpufreq governor, several joined by "+"
    turbo: bool | None  # whether clocks above the base clock are allowed
    max_hz: float | None  # highest clock that cpufreq allows
    # clock that /proc/cpuinfo lists: the present one, on guests mostly the nominal one
    listed_hz: float | None = None


def cpu(root: str = "/") -> Cpu:
    """Read it all; a few milliseconds. Never raises."""
    base = Path(root)
    # The first processor's entries: enough, and a machine may have hundreds.
    info: dict[str, str] = {}
    for line in (system_files.text(base / "proc/cpuinfo") or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            info.setdefault(name.strip(), value.strip())
        elif not line.strip() and info:
            break
    flags = set((info.get("flags") or info.get("Features") or "").split())
    is_x86 = "flags" in info
    vendor = info.get("vendor_id") or _ARM_IMPLEMENTERS.get(info.get("CPU implementer", ""), "")
    listed = cpu_list(system_files.text(base / "sys/devices/system/cpu/online") or "")
    if listed:
        online = listed
    else:
        lines = (system_files.text(base / "proc/cpuinfo") or "").splitlines()
        online = list(range(sum(line.startswith("processor") for line in lines)))
    allowed = system_files.field(base / "proc/self/status", "Cpus_allowed_list")
    affinity = cpu_list(allowed or "") or online
    guest = ("hypervisor" in flags) if is_x86 else None
    governors = {system_files.text(policy / "scaling_governor") for policy in _policies(base)} - {None, ""}
    limits = [system_files.number(policy / "cpuinfo_max_freq") for policy in _policies(base)]
    limits_told = [limit for limit in limits if limit]
    return Cpu(
        model=_model(info, vendor),
        vendor=vendor,
        family=_integer(info.get("cpu family")),
        code=_integer(info.get("model") if is_x86 else info.get("CPU part")),
        stepping=_integer(info.get("stepping")),
        vcpus=len(online) or os.cpu_count() or 1,
        physical_cores=_physical_cores(base, online, guest=guest),
        affinity=affinity,
        kind=_kind(base, affinity, online),
        isa=[name for name in ISA if name in flags],
        guest=guest,
        governor="+".join(sorted(name for name in governors if name)) or None,
        turbo=_turbo(base),
        max_hz=max(limits_told) * 1e3 if limits_told else None,
        listed_hz=_read_hz(info),
    )


def sockets(root: str = "/") -> int | None:
    """CPU packages of the machine, counted by their numbers in /sys; None if it does not say (macOS)."""
    cpus = Path(root) / "sys/devices/system/cpu"
    packages = {system_files.number(file) for file in cpus.glob("cpu[0-9]*/topology/physical_package_id")}
    return len(packages - {None}) or None


def cpu_list(words: str) -> list[int]:
    """`0-2,5` as [0, 1, 2, 5]; [] for anything else."""
    numbers: list[int] = []
    try:
        for part in words.split(","):
            first, dash, last = part.strip().partition("-")
            if first:
                numbers.extend(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        return []
    return numbers


def _model(info: dict[str, str], vendor: str) -> str:
    if name := info.get("model name"):
        return " ".join(name.split())
    if part := info.get("CPU part"):
        return _ARM_PARTS.get((vendor, part), f"{vendor or 'Arm'} core {part}")
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.processor()
    return platform.processor() or platform.machine() or "unknown"


def _sysctl(name: str) -> str | None:
    command = ["/usr/sbin/sysctl", "-n", name]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=1.0, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip() or None


def _kind(base: Path, affinity: list[int], online: list[int]) -> str:
    """Say how the usable CPUs share cores, and how fast they are where some differ; "" of all, or unknown."""
    if len(affinity) >= len(online):
        return ""
    folder = base / "sys/devices/system/cpu"
    cores = len({_siblings(folder / f"cpu{number}/topology") for number in affinity} - {()})
    clocks = {
        number: system_files.number(folder / f"cpu{number}/cpufreq/cpuinfo_max_freq") or 0
        for number in online
    }
    usable = sorted({clocks.get(number, 0) for number in affinity})
    fast = f" of {' and '.join(f'{clock // 1000:.0f}' for clock in usable)} MHz"
    return (
        f"{len(affinity)} on {count(cores, 'core')}" + (fast if len({*clocks.values()}) > 1 else "")
        if cores
        else ""
    )


def _physical_cores(base: Path, online: list[int], *, guest: bool | None) -> int | None:
    """Groups of logical CPUs that share a core.

    None on a guest that sees one thread on every core: its cores may well be hyperthreads."""
    cores = set()
    for number in online:
        siblings = _siblings(base / f"sys/devices/system/cpu/cpu{number}/topology")
        if not siblings:
            return _integer(_sysctl("hw.physicalcpu")) if sys.platform == "darwin" else None
        cores.add(siblings)
    if guest and len(cores) == len(online):
        return None
    return len(cores) or None


def _siblings(topology: Path) -> tuple[int, ...]:
    words = system_files.text(topology / "thread_siblings_list") or system_files.text(
        topology / "core_cpus_list"
    )
    return tuple(cpu_list(words or ""))


def _policies(base: Path) -> list[Path]:
    folder = base / "sys/devices/system/cpu"
    return sorted(folder.glob("cpufreq/policy*")) or sorted(folder.glob("cpu[0-9]*/cpufreq"))


def _turbo(base: Path) -> bool | None:
    folder = base / "sys/devices/system/cpu"
    if (off := system_files.number(folder / "intel_pstate/no_turbo")) is not None:
        return off == 0
    if (on := system_files.number(folder / "cpufreq/boost")) is not None:
        return on == 1
    return None


def _read_hz(info: dict[str, str]) -> float | None:
    try:
        return float(info["cpu MHz"]) * 1e6
    except (KeyError, ValueError):
        return None


def _integer(words: str | None) -> int | None:
    try:
        return int(words or "", 0)
    except ValueError:
        return None
