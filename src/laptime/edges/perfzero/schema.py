"""PerfZero's words, in one place: names of its files and metrics, their units, the machine, strict JSON."""

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from laptime.records.environment import Environment
from laptime.store.encoding import spell_out

WALL_TIME = "wall_time"
REPORT_VARIABLE = "TEST_REPORT_FILE_PREFIX"
"""What tells `report_benchmark` where its files go, and how their names begin."""
REPORT_PREFIX = "proto_"  # files of one benchmark method are called `proto_<Class>.<method>`
_ABSENT = -1  # what PerfZero writes for a count that could not be read
_UNITS: tuple[tuple[str, float, str, Literal["lower", "higher"]], ...] = (
    ("_per_second", 1.0, "1/s", "higher"),
    ("_per_sec", 1.0, "1/s", "higher"),
    ("_ms", 1e-3, "s", "lower"),
    ("_us", 1e-6, "s", "lower"),
    ("_s", 1.0, "s", "lower"),
    ("_seconds", 1.0, "s", "lower"),
    (WALL_TIME, 1.0, "s", "lower"),
)


def unit_of(name: str) -> tuple[float, str, Literal["lower", "higher", "none"]]:
    """Return the factor for a metric's values, the SI unit of the products, and which way is better."""
    for ending, factor, unit, better in _UNITS:
        if name.endswith(ending):
            return factor, unit, better
    return 1.0, "1", "none"


def text(document: Any) -> str:
    """Strict JSON: NaN and infinities are spelled out, as protobuf's JSON has them."""
    return json.dumps(spell_out(msgspec.to_builtins(document), _spell), indent=2, allow_nan=False) + "\n"


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
