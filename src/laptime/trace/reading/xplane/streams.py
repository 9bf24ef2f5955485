"""Kernels, copies and memsets of a GPU's plane: one line a stream, `Stream #13(Compute)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from laptime.trace.columns import NONE, DeviceKind
from laptime.trace.reading.xplane.space import Event, Fact, Plane

_PLANE = re.compile(r"^/device:GPU:(\d{1,4})")
_STREAM = re.compile(r"^Stream #(\d{1,9})")
_COPY = re.compile(r"^Memcpy([HDP])2([HDP])$")
_PAIR = re.compile(r"(\w+):(\S+)")
_LARGEST = 1 << 53


def device_of(plane: Plane) -> int | None:
    """The number of the GPU; None for a plane that is none."""
    match = _PLANE.match(plane.name)
    return int(match[1]) if match else None


def properties(plane: Plane, device: int) -> dict[str, Any]:
    """What the plane tells of its GPU, as Kineto's deviceProperties say it."""
    facts = plane.facts
    return {
        "id": device,
        "name": str(facts.get("device_type_string") or facts.get("device_vendor") or ""),
        "totalGlobalMem": facts.get("memory_size"),
        "computeMajor": facts.get("compute_cap_major"),
        "computeMinor": facts.get("compute_cap_minor"),
        "numSms": facts.get("core_count"),
    }


def rows(plane: Plane, device: int) -> Iterator[dict[str, Any]]:
    """Its activities as rows of `columns.DeviceWork`, with texts in place of indices.

    Lines that TensorFlow derives from the streams (`Steps`, `XLA Ops` ...) would count them twice.
    """
    for line in plane.lines:
        stream = _STREAM.match(line.name)
        for event in line.events if stream else ():
            kind = plane.kinds.get(event.kind)
            if stream and kind is not None:
                yield {"stream": int(stream[1]), "device": device, **_row(event, kind.name or kind.shown)}


def _row(event: Event, name: str) -> dict[str, Any]:
    facts = event.facts
    kind, launch = DeviceKind.KERNEL, _kernel_details(facts.get("kernel_details"))
    if "memcpy_details" in facts or name.startswith("Memcpy"):
        kind, launch = DeviceKind.MEMCPY, _kernel_details(facts.get("memcpy_details"))
        source, target = launch.get("kind_src", ""), launch.get("kind_dst", "")
        name = _COPY.sub(r"Memcpy \1to\2", name)
        name = f"{name} ({source} -> {target})" if source or target else name
    elif "memset_details" in facts or name.startswith("Memset"):
        kind, launch = DeviceKind.MEMSET, _kernel_details(facts.get("memset_details"))
    correlation = facts.get("correlation_id", NONE)
    return {
        "start": event.start,
        "end": event.end,
        "name": name,
        "kind": kind,
        "correlation": correlation if isinstance(correlation, int) else NONE,
        "occupancy": _number(launch.get("occ_pct"), float("nan")),
        "grid": _three(launch.get("grid", "")),
        "block": _three(launch.get("block", "")),
        "registers": int(_number(launch.get("regs"), NONE)),
        "shared_memory": int(
            _number(launch.get("static_shared"), 0) + _number(launch.get("dynamic_shared"), 0)
        )
        if "static_shared" in launch
        else NONE,
        "bytes": int(_number(launch.get("size", launch.get("num_bytes")), NONE)),
    }


def _kernel_details(details: Fact | None) -> dict[str, str]:
    """`regs:32 grid:1,1,1 block:256,1,1` as a dictionary."""
    return dict(_PAIR.findall(details)) if isinstance(details, str) else {}


def _three(text: str) -> str:
    """`4,1,1` as Kineto writes it: `[4, 1, 1]`; "" where there is nothing."""
    return f"[{text.replace(',', ', ')}]" if text else ""


def _number(text: str | None, otherwise: float) -> float:
    try:
        number = float(text) if text is not None else otherwise
    except ValueError:
        return otherwise
    return number if abs(number) < _LARGEST else otherwise
