"""What a benchmark method came to: its state, its bounds, and the intervals of its numbers over trials."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from msgspec import Struct

from laptime.analysis.quantiles import mean_interval
from laptime.launch.process import ending
from laptime.suites.perfzero.process import Ended
from laptime.suites.perfzero.report import Metric, Report

State = Literal[
    "passed",
    "bound_violated",
    "raised",
    "crashed",
    "hung",
    "no_report",
    "bad_report",
    "reported_twice",
    "not_a_number",
]
"""passed; or the first of these that holds, from how the process ended to what its numbers say."""

Word = Literal["kept", "violated", "unclear"]

TRIALS = 3
"""Trials from which the mean of a number has an interval (Student's t)."""


class Outcome(Struct, frozen=True, kw_only=True):
    """One trial of one method.

    Attributes:
        state: see `State`.
        sentence: what happened, in words.
        report: the one that counts; None when there is none.
        others: further reports of the same method.
        renamed: the report that counts was given another name than `Class.method`.
        units_doubtful: the reported wall time is longer than the method ran, so it is not in seconds.
        ended: how the process went.
    """

    state: State
    sentence: str
    report: Report | None
    others: list[Report] = []
    renamed: bool = False
    units_doubtful: bool = False
    ended: Ended

    @property
    def measured(self) -> bool:
        """Whether its numbers may be used: the method ended, and they are numbers."""
        return self.report is not None and self.state in ("passed", "bound_violated")


class Spread(Struct, frozen=True, kw_only=True):
    """A number over the trials so far, in the benchmark's own unit.

    Attributes:
        values: one a trial, in their order.
        ci95: 95 % interval of the mean over fresh processes; None below three trials.
        bound: whether the mean keeps the bounds: kept, violated, or unclear; None without bounds.
    """

    values: list[float]
    mean: float
    ci95: tuple[float, float] | None
    min_value: float | None = None
    max_value: float | None = None
    bound: Word | None = None


def judge(ended: Ended, reports: list[Report], faults: list[str]) -> Outcome:
    """One trial, from how its process went and the files it left."""
    imported = ended.event("imported") or {}
    reporter = str(imported.get("reports_as", ""))
    main = next((each for each in reports if each.name == reporter), reports[0] if reports else None)
    state, sentence = _state(ended, main, faults)
    over = ended.event("ended")
    return Outcome(
        state=state,
        sentence=sentence,
        report=main,
        others=[each for each in reports if each is not main],
        renamed=main is not None and bool(reporter) and main.name != reporter,
        units_doubtful=bool(main and over and main.wall_time > 1.05 * float(over["seconds"])),
        ended=ended,
    )


def violations(report: Report) -> list[str]:
    """The bounds that the numbers of a report break; both ends are inclusive."""
    sentences = []
    for each in report.metrics:
        if each.min_value is not None and not each.value >= each.min_value:
            sentences.append(f"{each.name} is {each.value:g}, below {each.min_value:g}")
        if each.max_value is not None and not each.value <= each.max_value:
            sentences.append(f"{each.name} is {each.value:g}, above {each.max_value:g}")
    return sentences


def spreads(trials: list[Outcome]) -> dict[str, Spread]:
    """wall_time and every metric over the trials that have them, by name."""
    reports = [each.report for each in trials if each.measured and each.report is not None]
    columns: dict[str, list[Metric]] = {}
    for report in reports:
        for metric in report.numbers:
            columns.setdefault(metric.name, []).append(metric)
    return {name: _spread(metrics) for name, metrics in columns.items()}


def _spread(metrics: list[Metric]) -> Spread:
    values = np.asarray([each.value for each in metrics])
    ci95 = mean_interval(values, effective=len(values)) if len(values) >= TRIALS else None
    last, mean = metrics[-1], float(values.mean())
    return Spread(
        values=values.tolist(),
        mean=mean,
        ci95=ci95,
        min_value=last.min_value,
        max_value=last.max_value,
        bound=held(ci95 or (mean, mean), last.min_value, last.max_value),
    )


def held(around: tuple[float, float], least: float | None, most: float | None) -> Word | None:
    """Whether all of an interval keeps the bounds, or none of it; None without bounds."""
    if least is None and most is None:
        return None
    least, most = -math.inf if least is None else least, math.inf if most is None else most
    if least <= around[0] and around[1] <= most:
        return "kept"
    return "violated" if around[1] < least or around[0] > most else "unclear"


def _state(ended: Ended, main: Report | None, faults: list[str]) -> tuple[State, str]:
    raised = ended.event("raised")
    if ended.hung:
        return "hung", f"no end after {ended.seconds:.0f} s; the log says where it was"
    if raised is not None:
        return _raised(raised)
    if ended.event("ended") is None:
        return "crashed", f"its process {ending(ended.status or 0)} {_where(ended)}"
    if faults:
        return "bad_report", faults[0]
    if main is None:
        return "no_report", "it ended without calling report_benchmark"
    odd = [each.name for each in main.numbers if not math.isfinite(each.value)]
    if odd:
        return "not_a_number", f"{', '.join(odd)} {'is' if len(odd) == 1 else 'are'} no finite number"
    broken = violations(main)
    return ("bound_violated", "; ".join(broken)) if broken else ("passed", "it ran, and every bound is kept")


def _raised(event: dict[str, object]) -> tuple[State, str]:
    message = " ".join(f"{event.get('kind')}: {event.get('message')}".split())
    if event.get("phase") == "method" and "already exists" in message and "proto_" in message:
        return "reported_twice", "it reported twice under one name; the first report is kept"
    where = {"import": "importing its class", "constructor": "its constructor", "lookup": "looking it up"}
    phase = str(event.get("phase"))
    return "raised", f"{where[phase]} raised {message}" if phase in where else f"it raised {message}"


def _where(ended: Ended) -> str:
    if ended.event("started"):
        return "within the method"
    return "in its constructor" if ended.event("imported") else "while its class was imported"
