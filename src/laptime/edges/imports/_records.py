"""Runs made from what other tools have written down: cases of any kind, and levels of load on a server.

Latency of a request counts from when it was due, if the file tells that: a generator that waits for a free
place and then starts its clock hides the queue. Time per output token is (last - first) / (tokens - 1),
whatever the tool calls it, so that tools can be laid side by side."""

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from laptime.kit import __version__, clock
from laptime.kit.units import show
from laptime.records.case import Axis, Case, Failure, case_key
from laptime.records.check import Check
from laptime.records.details import Details
from laptime.records.environment import Environment
from laptime.records.requests import TPOT, TTFT
from laptime.records.run import Run, Subject
from laptime.records.series import Metric, Regime, Series, read_metrics

(LATENCY,) = read_metrics("""
latency s lower latency
    time of one call, as the other tool took it Lies when: that tool did not wait for the device
""")


def run(
    tool: str,
    path: Path,
    cases: list[Case],
    *,
    started: datetime,
    machine: Environment | None = None,
    name: str = "",
) -> Run:
    """A complete run. The same content gives the same id, so that a second import adds nothing."""
    moment = started.astimezone(UTC)
    mark = hashlib.sha256(msgspec.json.encode([tool, name, [(case.key, case.series) for case in cases]]))
    return Run(
        id=f"{moment:%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03d}-{mark.hexdigest()[:6]}",
        verb="import",
        name=name,
        started=f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        laptime=__version__,
        command=["laptime", "import", path.name],
        status="complete",
        subjects=[Subject(target=target, source=tool) for target in dict.fromkeys(c.target for c in cases)],
        environment=machine or environment(),
        cases=cases,
    )


def case(
    tool: str, target: str, axes: Mapping[str, Axis], series: list[Series], details: Details | None = None
) -> Case:
    """A case that says where it comes from: nothing is known about what disturbed it."""
    check = Check(
        name="imported",
        outcome="warn",
        sentence=f"imported from {tool}: what disturbed these numbers is not known",
        next="laptime history   shows how far these numbers move",
    )
    axes, details = dict(axes), details or Details()
    key = case_key(target, axes)
    return Case(key=key, target=target, axes=axes, series=series, checks=[check], details=details)


def to_case(
    tool: str,
    target: str,
    axes: Mapping[str, Axis],
    samples: Sequence[float | None],
    *,
    calls: int = 1,
    note: str = "",
) -> Case:
    """A case of timed calls, see `latency`; one whose times are none has failed, and says so."""
    try:
        return case(tool, target, axes, [latency(samples, calls=calls, note=note)])
    except ValueError as error:
        return make_failed(tool, target, axes, str(error))


def make_failed(tool: str, target: str, axes: Mapping[str, Axis], why: str) -> Case:
    """A case without a number."""
    failure = Failure(kind="imported", what=f"{tool} recorded no time for it", why=why)
    return structs.replace(case(tool, target, axes, []), status="failed", failure=failure)


def latency(samples: Sequence[float | None], *, calls: int = 1, note: str = "") -> Series:
    """Times of calls in seconds, each the mean of so many calls. None: not written down, as JSON has NaN.
    Raises ValueError: none, or one that is no time."""
    values = [math.nan if value is None else float(value) for value in samples]
    if not values or not all(math.isfinite(value) and value > 0 for value in values):
        raise ValueError("a time is missing, not finite, or not above zero: its clock may be too coarse")
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
    """The machine as a tool wrote it down; fields that it left out are empty, or 0. names: host, os, python,
    cpu."""
    number = int(str(cpus)) if str(cpus).isdecimal() else 0
    texts: dict[str, Any] = {name: str(names.get(name) or "") for name in ("host", "os", "python", "cpu")}
    # Bytes in `16GB`, `16384 kB` or a plain number, 0 for anything else.
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B?\s*", str(memory))
    return Environment(
        **texts,
        vcpus=number,
        usable_cpus=float(number),
        memory=0 if match is None else int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ")),
        libraries={name: str(version) for name, version in (libraries or {}).items() if version},
        git=git,
    )


def moment(value: object) -> datetime:
    """A point in time: ISO 8601 (UTC if it has no zone), or seconds since 1970.
    Raises ValueError: it is neither."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return clock.moment(str(value))


# Requests to a server, as load generators write them down

_SHOWN = 0.05
"""Waiting before a request was sent that is worth a word, as a share of the latency from the schedule."""


class Request(NamedTuple):
    """An answered request; seconds."""

    latency: float  # from when it was sent to the end of the answer
    ttft: float | None  # from when it was sent to the first token; None if the answer was no stream
    output: int  # tokens of the answer
    waited: float | None  # from when it was due until it was sent; None if that was not written down


def level(
    tool: str,
    target: str,
    axes: Mapping[str, Axis],
    requests: Sequence[Request],
    *,
    seconds: float,
    failed: int,
    since: str = "from when it was due",
) -> Case:
    """A level of load: its requests, and what was answered in so many seconds.
    since: what latency counts from, if all requests tell how long they waited.
    Raises ValueError: no request was answered, a time is none, or the test took none."""
    known = all(request.waited is not None for request in requests)
    note = since if known else f"from when it was sent: {tool} recorded no more"
    waits = [request.waited or 0.0 for request in requests]
    times = latency([r.latency + wait for r, wait in zip(requests, waits, strict=True)], note=note)
    series = [structs.replace(times, regime=Regime.PACED)]
    first = [r.ttft + wait for r, wait in zip(requests, waits, strict=True) if r.ttft is not None]
    if first:
        series.append(Series(metric=TTFT, regime=Regime.PACED, samples=first, note=note))
    gaps = [(r.latency - r.ttft) / (r.output - 1) for r in requests if r.ttft is not None and r.output > 1]
    if gaps:
        series.append(Series(metric=TPOT, regime=Regime.PACED, samples=gaps))
    series += _rates(len(requests), sum(request.output for request in requests), seconds)
    made = case(tool, target, axes, series, Details(unit="request", failed=failed))
    return structs.replace(made, checks=[*made.checks, *_checks(requests, since if known else "", failed)])


def summary(
    tool: str,
    target: str,
    axes: Mapping[str, Axis],
    medians: Mapping[str, float],
    *,
    note: str,
    answered: float,
    tokens: float,
    seconds: float,
    failed: int,
) -> Case:
    """A level of which nothing but medians was kept: of `latency`, `load/ttft` and `load/tpot`, in seconds.
    Raises ValueError: one is no time, or the test took none."""
    kept = {LATENCY.tag: LATENCY, TTFT.tag: TTFT, TPOT.tag: TPOT}
    series = [
        structs.replace(latency([value], note=note), metric=kept[tag], regime=Regime.PACED)
        for tag, value in medians.items()
    ]
    series += _rates(answered, tokens, seconds)
    return case(tool, target, axes, series, Details(unit="request", failed=failed))


def _rates(answered: float, tokens: float, seconds: float) -> list[Series]:
    if seconds <= 0:
        raise ValueError("the test took no time")
    return [
        single("load/answered", "1/s", answered / seconds, better="higher"),
        single("load/output_tokens", "1/s", tokens / seconds, better="higher"),
    ]


def _checks(requests: Sequence[Request], since: str, failed: int) -> Iterator[Check]:
    if failed:
        total = failed + len(requests)
        yield Check("answers", "warn", f"{failed} of {total} requests failed; they have no latency here")
    if not since:
        return
    sent = float(np.quantile([request.latency for request in requests], 0.95))
    due = float(np.quantile([request.latency + (request.waited or 0.0) for request in requests], 0.95))
    if due - sent > _SHOWN * due:
        words = f"95 of 100 answers came within {show(due, 's')}, {since}"
        yield Check("waited", "note", f"{words}; {show(sent, 's')} is what counting from sending shows")
