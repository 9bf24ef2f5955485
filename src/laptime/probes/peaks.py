"""The theoretical peaks of hardware: dense FLOP/s by dtype and bytes per second.

Figures come from tables in `laptime/data` with their source; a device that is not there is estimated from its
structure. Both say which they are. A measured peak is a better yardstick for speed, this one a hard ceiling.

    datasheet   device by name:  the longest name that matches as whole words, with the right memory size
    estimated   NVIDIA:          multiprocessors x FLOP per clock and multiprocessor x clock
                CPU:             physical cores x FLOP per clock and core x clock"""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from msgspec import Struct

from laptime.probes.cpu import Cpu, cpu
from laptime.records.environment import Device
from laptime.records.series import read_metrics

METRICS = read_metrics("""
peak/flops FLOP/s higher peak on paper
    Dense floating point operations per second at the maker's clock.
    Lies when: The power limit holds the clock below the maker's figure (small boards reach half); sparse
    weights; a CPU's physical cores or clock are hidden.
peak/bandwidth B/s higher memory bandwidth on paper
    Bytes per second between the device and its memory.
    Lies when: The data stays in caches.
""")
DTYPES = ("float32", "tf32", "float16", "bfloat16", "float8", "int8")
_OTHER_KINDS = {"ti", "super", "laptop", "mobile", "max-q", "d", "mig", "embedded", "ada"}
"""Words behind a name that make it another device: `RTX 3090` is not `RTX 3090 Ti`."""

# FLOP per clock of one multiprocessor on tensor cores, float16 with float32 accumulation. GeForce cards have
# half of the professional ones. From the vendors' tables; checked to be within 3 % for Volta to Ada.
_TENSOR = {
    (7, 0): 1024,
    (7, 5): 1024,
    (8, 0): 2048,
    (8, 6): 1024,
    (8, 7): 2048,
    (8, 9): 1024,
    (9, 0): 4096,
    (10, 0): 8192,
    (10, 3): 8192,
    (12, 0): 1024,
}
_HALF_ON_GEFORCE = {(7, 5), (8, 6), (8, 9), (12, 0)}


class Peak(Struct, frozen=True, kw_only=True):
    """The ceiling of one device."""

    name: str  # the device it was taken for
    flops: dict[str, float]  # dense FLOP/s by dtype; what is unknown is not in it
    bandwidth: float | None = None  # bytes per second, None unknown
    power: float | None = None  # watts the maker allows, None unknown
    source: Literal["datasheet", "estimated"]  # datasheet or estimated
    note: str  # where the figures come from, and what was assumed


def device_peak(
    model: str, *, memory: int | None = None, details: Mapping[str, Any] | None = None
) -> Peak | None:
    """The peak of an accelerator by the name its driver gives; None when nothing is known.
    model: "NVIDIA H200", "AMD Instinct MI300X" ... memory: bytes; tells apart devices of one name, and
    rejects one that only sounds alike. details: for devices that are not in the table: `capability` (major,
    minor), `multiprocessors`, `max_clock` in Hz."""
    row = _row(model, memory)
    return _estimate(model, details or {}) if row is None else _read_peak(row)


def accelerator_ceiling(name: str) -> Peak | None:
    """The makers' figures of an accelerator in the table, by its name there."""
    return next((_read_peak(row) for row in _table("accelerators.csv") if row["name"] == name), None)


def _read_peak(row: dict[str, str]) -> Peak:
    return Peak(
        name=row["name"],
        flops={dtype: float(row[dtype]) * 1e12 for dtype in DTYPES if row[dtype]},
        bandwidth=float(row["bandwidth_gb_s"]) * 1e9 if row["bandwidth_gb_s"] else None,
        power=float(row["power_w"]) if row["power_w"] else None,
        source="datasheet",
        note=row["source"],
    )


def cpu_peak(processor: Cpu, *, usable: float | None = None) -> Peak | None:
    """The peak of the CPUs that may be used; None when neither the core nor its clock is known. usable: CPUs
    that affinity and quota leave; None takes all."""
    # Known microarchitectures come first in the table, then instruction sets alone.
    row = next((row for row in _table("cpus.csv") if _is_core(processor, row)), None)
    if row is None:
        return None
    typical = float(row["ghz"]) * 1e9 if row["ghz"] else None
    clock = processor.max_hz or typical or processor.listed_hz
    if clock is None:
        return None
    cores = float(processor.physical_cores or processor.vcpus)
    if usable is not None:
        # A share of the machine: without knowing better, usable CPUs lie on different cores.
        cores = min(cores, usable)
    hidden = "" if processor.physical_cores else "; physical cores are hidden, each vCPU taken for one"
    return Peak(
        name=row["name"],
        flops={
            dtype: cores * float(row[dtype]) * clock
            for dtype in ("float32", "bfloat16", "float16", "int8")
            if row[dtype]
        },
        source="estimated",
        note=f"{cores:g} cores x FLOP per clock x {clock / 1e9:.2g} GHz; {row['source']}{hidden}",
    )


def accelerators() -> dict[str, float]:
    """GiB of memory of every accelerator in the table, by name."""
    return {row["name"]: float(row["memory_gb"]) for row in _table("accelerators.csv")}


def accelerator_name(model: str, memory: int | None = None) -> str:
    """The table's name of an accelerator that a driver calls `model`; "" if it is not in the table."""
    row = _row(model, memory)
    return "" if row is None else row["name"]


_SLICE = re.compile(r"\s*\bMIG (?:(\d+)c\.)?(\d+)g\.(\d+)gb", re.IGNORECASE)


def slice_of(model: str, memory: int | None = None) -> tuple[str, float]:
    """The table's name of an accelerator, or of the one that a MIG slice is part of, and the share of it that
    is used up: of its seven units or of its memory, whichever is larger; of a slice in a slice its part.

    Source: NVIDIA MIG User Guide, supported MIG profiles."""
    match = _SLICE.search(model)
    if match is None:
        return accelerator_name(model, memory), 1.0
    units, gigabytes = int(match[2]), int(match[3])
    name, part = accelerator_name(model[: match.start()]), int(match[1] or units) / units
    return name, part * min(1.0, max(units / 7, gigabytes / accelerators().get(name, math.inf)))


_LEVELS = ("amx_bf16", "avx512f", "avx2", "bf16", "asimd")
_EPYC = re.compile(r"EPYC \w{3}(\d)")


def cores_of(brand: str, isa: Sequence[str]) -> list[str]:
    """Microarchitectures in the table that a CPU may have, by its name for itself and its instruction sets;
    none if nothing tells. The last digit of an EPYC's number is its generation."""
    most = next((each for each in _LEVELS if each in isa), "")  # older cores do not have it
    rows = [row for row in _table("cpus.csv") if row["vendor"] and row["needs"] == most]
    epyc = _EPYC.search(brand)
    for are_meant in (
        lambda row: row["name"] in brand.replace("-", " "),
        lambda row: epyc is not None and row["name"] == f"Zen {epyc[1]}",
        lambda row: {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}.get(row["vendor"], "\0") in brand,
    ):
        if names := [row["name"] for row in rows if are_meant(row)]:
            return names
    return [row["name"] for row in rows]


def core_ceiling(names: Sequence[str]) -> Peak | None:
    """One core of the best of these microarchitectures, at the highest clock that any server part has, with
    the bandwidth of a whole socket; None unless all are known."""
    rows = [row for row in _table("cpus.csv") if row["name"] in names and row["max_ghz"]]
    if not names or len(rows) != len(set(names)):
        return None
    flops = {
        dtype: max(float(row[dtype]) * float(row["max_ghz"]) * 1e9 for row in rows)
        for dtype in ("float32", "bfloat16", "float16", "int8")
        if all(row[dtype] for row in rows)
    }
    bandwidth = max(float(row["socket_gb_s"]) for row in rows) * 1e9
    return Peak(name=names[0], flops=flops, bandwidth=bandwidth, source="datasheet", note="")


def on_paper(device: Device, dtypes: list[str]) -> float | None:
    """FLOP/s of the fastest of these dtypes, by table or structure; None when nothing is known."""
    is_cpu = device.name == "cpu"
    ceiling = cpu_peak(cpu()) if is_cpu else device_peak(device.model, memory=device.memory)
    rates = [ceiling.flops[dtype] for dtype in dtypes if ceiling is not None and dtype in ceiling.flops]
    return max(rates, default=None)


@cache
def _table(name: str) -> tuple[dict[str, str], ...]:
    text = (files("laptime") / "data" / name).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def _row(model: str, memory: int | None) -> dict[str, str] | None:
    """The row with the longest name in `model`; among equals the one with the nearest memory."""
    best: tuple[int, float] | None = None
    match = None
    for row in _table("accelerators.csv"):
        length = max((len(name) for name in row["match"].split("|") if _names(model, name)), default=0)
        if not length:
            continue
        off = abs(memory / 2**30 / float(row["memory_gb"]) - 1) if memory else 0.0
        if off > 0.15:
            continue
        if best is None or (-length, off) < best:
            best, match = (-length, off), row
    return match


def _names(model: str, name: str) -> bool:
    match = re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", model, re.IGNORECASE)
    if match is None:
        return False
    following = model[match.end() :].lower().split()
    return not (set(following) & _OTHER_KINDS)


def _estimate(model: str, details: Mapping[str, Any]) -> Peak | None:
    capability = details.get("capability")
    count, clock = details.get("multiprocessors"), details.get("max_clock")
    if not capability or not count or not clock:
        return None
    major, minor = (int(part) for part in capability)
    rate = float(count) * float(clock)
    flops = {"float32": rate * 2 * (64 if (major, minor) <= (8, 0) else 128)}
    per_clock = _TENSOR.get((major, minor))
    if per_clock:
        if "GeForce" in model and (major, minor) in _HALF_ON_GEFORCE:
            per_clock //= 2
        flops["float16"] = rate * per_clock
        if major >= 8:
            flops["bfloat16"] = flops["float16"]
            flops["tf32"] = flops["float16"] / 2
    note = f"{count} multiprocessors x FLOP per clock x {float(clock) / 1e9:.2f} GHz"
    return Peak(name=model, flops=flops, source="estimated", note=note)


def _is_core(processor: Cpu, row: dict[str, str]) -> bool:
    if row["needs"] not in processor.isa:
        return False
    if row["vendor"] and row["vendor"] != processor.vendor:
        return False
    if row["family"] and int(row["family"]) != processor.family:
        return False
    if row["models"] and processor.code not in {int(word, 0) for word in row["models"].split("|")}:
        return False
    if row["steppings"]:
        first, _, last = row["steppings"].partition("-")
        return processor.stepping is not None and int(first) <= processor.stepping <= int(last)
    return True
