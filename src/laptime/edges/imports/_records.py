"""Runs made from what other tools have written down."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from laptime.kit.package import __version__
from laptime.records.case import Axis, Case, case_key
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.metric import Metric
from laptime.records.regime import Regime
from laptime.records.run import Run, Subject
from laptime.records.series import Series

LATENCY = Metric(
    tag="latency",
    unit="s",
    title="latency",
    better="lower",
    meaning="time of one call, as the other tool took it",
    lies_when="that tool did not wait for the device",
)


def run(
    tool: str, source: str, cases: list[Case], *, started: datetime, machine: Environment, name: str = ""
) -> Run:
    """A complete run. The same content gives the same id, so that a second import adds nothing."""
    moment = started.astimezone(UTC)
    mark = hashlib.sha256(repr((tool, name, [(case.key, case.series) for case in cases])).encode())
    return Run(
        id=f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03d}-{mark.hexdigest()[:6]}",
        verb="import",
        name=name,
        started=f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        laptime=__version__,
        command=["laptime", "import", source],
        status="complete",
        subjects=[Subject(target=target, source=tool) for target in dict.fromkeys(c.target for c in cases)],
        environment=machine,
        cases=cases,
    )


def case(tool: str, target: str, axes: Mapping[str, Axis], series: list[Series], **details: Any) -> Case:
    """A case that says where it comes from: nothing is known about what disturbed it."""
    check = Check(
        name="imported",
        outcome="warn",
        sentence=f"imported from {tool}: what disturbed these numbers is not known",
        next="measure with laptime bench",
    )
    axes = dict(axes)
    return Case(
        key=case_key(target, axes), target=target, axes=axes, series=series, checks=[check], details=details
    )


def latency(samples: Sequence[float], *, calls: int = 1, note: str = "") -> Series:
    """Times of calls in seconds, each the mean of so many calls.

    Raises:
        ValueError: none, or one that is no time.
    """
    values = [float(value) for value in samples]
    if not values or not all(math.isfinite(value) and value > 0 for value in values):
        raise ValueError("a time is missing, not finite, or not above zero")
    return Series(
        metric=LATENCY,
        regime=Regime.SATURATED if calls > 1 else Regime.ISOLATED,
        samples=values,
        calls=[calls] * len(values) if calls > 1 else [],
        note=note,
    )


def single(
    tag: str, unit: str, value: float, *, better: Literal["lower", "higher", "none"] = "none"
) -> Series:
    """A number that was written down once."""
    return Series(metric=Metric(tag=tag, unit=unit, title=tag.rpartition("/")[2], better=better),
                  samples=[float(value)])  # fmt: skip


def environment(
    *,
    cpus: object = 0,
    memory: object = 0,
    libraries: Mapping[str, object] | None = None,
    git: dict[str, Any] | None = None,
    **names: object,
) -> Environment:
    """What a tool wrote down about the machine; what it left out is empty, or 0.

    Args:
        names: host, os, python, cpu.
    """
    number = _whole(cpus)
    texts: dict[str, Any] = {name: str(names.get(name) or "") for name in ("host", "os", "python", "cpu")}
    return Environment(
        **texts,
        vcpus=number,
        usable_cpus=float(number),
        memory=_bytes(memory),
        libraries={name: str(version) for name, version in (libraries or {}).items() if version},
        git=git,
    )


def _whole(value: object) -> int:
    try:
        return max(0, int(str(value)))
    except ValueError:
        return 0


def _bytes(value: object) -> int:
    """Bytes in `16GB`, `16384 kB` or a plain number, 0 for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B?\s*", str(value))
    if match is None:
        return 0
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


def moment(value: object) -> datetime:
    """A point in time: ISO 8601 (UTC where it has no zone), or seconds since 1970.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    time = datetime.fromisoformat(str(value))
    return time if time.tzinfo else time.replace(tzinfo=UTC)
