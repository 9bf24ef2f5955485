"""Requests to a server, as load generators write them down.

Latency counts from when a request was due, where the file tells that: a generator that waits for a free place
and then starts its clock hides the queue. Time per output token is (last - first) / (tokens - 1) whatever the
tool calls it, so that tools can be laid side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import structs

from laptime.edges.imports import _records
from laptime.kit.units import show
from laptime.records.case import Axis, Case
from laptime.records.check import Check
from laptime.records.regime import Regime
from laptime.records.requests import TPOT, TTFT
from laptime.records.series import Series

_SHOWN = 0.05
"""Waiting before a request was sent that is worth a word, as a share of the latency from the schedule."""


class Request(NamedTuple):
    """An answered request; seconds.

    Attributes:
        latency: from when it was sent to the end of the answer.
        ttft: from when it was sent to the first token; None where the answer was no stream.
        output: tokens of the answer.
        waited: from when it was due until it was sent; None where that was not written down.
    """

    latency: float
    ttft: float | None
    output: int
    waited: float | None


def case(
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

    Args:
        since: what latency counts from, where all requests tell how long they waited.

    Raises:
        ValueError: no request was answered, a time is none, or the test took none.
    """
    known = all(request.waited is not None for request in requests)
    note = since if known else f"from when it was sent: {tool} wrote no more down"
    waits = [request.waited or 0.0 for request in requests]
    latency = _records.latency([r.latency + wait for r, wait in zip(requests, waits, strict=True)], note=note)
    series = [structs.replace(latency, regime=Regime.PACED)]
    first = [r.ttft + wait for r, wait in zip(requests, waits, strict=True) if r.ttft is not None]
    if first:
        series.append(Series(metric=TTFT, regime=Regime.PACED, samples=first, note=note))
    gaps = [(r.latency - r.ttft) / (r.output - 1) for r in requests if r.ttft is not None and r.output > 1]
    if gaps:
        series.append(Series(metric=TPOT, regime=Regime.PACED, samples=gaps))
    series += _rates(len(requests), sum(request.output for request in requests), seconds)
    case = _records.case(tool, target, axes, series, unit="request", failed=failed)
    return structs.replace(case, checks=[*case.checks, *_checks(requests, since if known else "", failed)])


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

    Raises:
        ValueError: one is no time, or the test took none.
    """
    kept = {_records.LATENCY.tag: _records.LATENCY, TTFT.tag: TTFT, TPOT.tag: TPOT}
    series = [
        structs.replace(_records.latency([value], note=note), metric=kept[tag], regime=Regime.PACED)
        for tag, value in medians.items()
    ]
    series += _rates(answered, tokens, seconds)
    return _records.case(tool, target, axes, series, unit="request", failed=failed)


def _rates(answered: float, tokens: float, seconds: float) -> list[Series]:
    if seconds <= 0:
        raise ValueError("the test took no time")
    return [
        _records.single("load/answered", "1/s", answered / seconds, better="higher"),
        _records.single("load/output_tokens", "1/s", tokens / seconds, better="higher"),
    ]


def _checks(requests: Sequence[Request], since: str, failed: int) -> Iterable[Check]:
    if failed:
        total = failed + len(requests)
        yield Check("answers", "warn", f"{failed} of {total} requests failed; they have no latency here")
    if not since:
        return
    sent = float(np.quantile([request.latency for request in requests], 0.95))
    due = float(np.quantile([request.latency + (request.waited or 0.0) for request in requests], 0.95))
    if due - sent > _SHOWN * due:
        words = f"95 of 100 answers came within {show(due, 's')}, {since}"
        yield Check("waited", "note", f"{words}; {show(sent, 's')} is what counting from sending tells")
