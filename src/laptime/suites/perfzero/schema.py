"""What every PerfZero summary has in common, whatever was measured: the machine in its words, strict JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from laptime.records.environment import Environment
from laptime.store.encoding import spelled

_ABSENT = -1
"""What PerfZero writes for a count that could not be read."""


def text(document: Any) -> str:
    """Strict JSON: NaN and infinities are spelled out, as protobuf's JSON has them."""
    return json.dumps(spelled(msgspec.to_builtins(document), _spell), indent=2, allow_nan=False) + "\n"


def system_info(environment: Environment, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The machine in PerfZero's words; `names` are the labels that a user gave it."""
    info: dict[str, Any] = dict(names or {})
    accelerators = [device for device in environment.devices if device.name != "cpu"]
    if accelerators:
        info["accelerator_driver_version"] = accelerators[0].driver or ""
        info["accelerator_model"] = accelerators[0].model
        info["accelerator_count"] = len(accelerators)
    return {
        **info,
        "cpu_model": environment.cpu,
        "physical_cpu_count": _ABSENT if environment.physical_cores is None else environment.physical_cores,
        "logical_cpu_count": environment.vcpus,
        "cpu_socket_count": _ABSENT if environment.sockets is None else environment.sockets,
        "hostname": environment.host,
    }


def _spell(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
