"""What a benchmark method came to: its state, its bounds, and the intervals of its numbers over trials."""

from __future__ import annotations

import math
from typing import Any, Literal

from msgspec import Struct, structs

from laptime.analysis.quantiles import over_trials
from laptime.edges.perfzero.process import Ended
from laptime.edges.perfzero.report import Metric, Report
from laptime.edges.perfzero.schema import REPORT_PREFIX, WALL_TIME
from laptime.kit.text import closest
from laptime.process.program import ending
from laptime.records.quantity import Judgement, Quantity

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
    "negative",
]
"""passed; or the first of these that holds, from how the process ended to what its numbers say."""

MEASURED = frozenset({"passed", "bound_violated"})
"""The method ended, and its numbers can be used."""
IMPOSSIBLE = frozenset({"not_a_number", "negative"})
"""The method ended, and its numbers cannot be what they are said to be."""

_NEVER_NEGATIVE = (WALL_TIME, "_per_second", "_per_sec")
"""Endings of the names of times and rates."""


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
        return self.report is not None and self.state in MEASURED


class Spread(Struct, frozen=True, kw_only=True):
    """A number over the trials so far, in the benchmark's own unit.

    Attributes:
        values: one a trial, in their order.
        value, statistic: the mean over the trials, and which mean it is (see `over_trials`).
        ci95: 95 % interval of the mean over fresh processes; None below three trials.
        bound: whether the bounds are kept; None without bounds.
    """

    values: list[float]
    value: float
    statistic: str
    ci95: tuple[float, float] | None
    min_value: float | None = None
    max_value: float | None = None
    bound: Judgement | None = None

    @property
    def range(self) -> tuple[float, float]:
        """What is held against the bounds: the interval; below three trials every value, as PerfZero does."""
        return self.ci95 or (min(self.values), max(self.values))


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
    for each in report.numbers:
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
    last, trials = metrics[-1], over_trials([each.value for each in metrics])
    spread = Spread(
        values=[each.value for each in metrics],
        value=trials.quantity.value,
        statistic=trials.statistic,
        ci95=trials.quantity.interval,
        min_value=last.min_value,
        max_value=last.max_value,
    )
    word = held(spread, last.min_value, last.max_value)
    return structs.replace(spread, bound=word)


def held(spread: Spread, least: float | None, most: float | None) -> Judgement | None:
    """Whether a number keeps its bounds; None without bounds.

    All of its interval has to keep them, or none of it; without an interval every value, as in PerfZero.
    """
    if least is None and most is None:
        return None
    numbers = (
        [Quantity.of(spread.value, spread.ci95)]
        if spread.ci95
        else [Quantity(value, exact=True) for value in spread.values]
    )
    return Judgement.of_all(
        number.judged(limit, at_least=at_least)
        for number in numbers
        for limit, at_least in ((least, True), (most, False))
        if limit is not None
    )


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
    below = [each for each in main.numbers if each.value < 0 and each.name.endswith(_NEVER_NEGATIVE)]
    if below:
        return "negative", f"{below[0].name} is {below[0].value:g}: no time or rate is below zero"
    broken = violations(main)
    return ("bound_violated", "; ".join(broken)) if broken else ("passed", "it ran, and every bound is kept")


def _raised(event: dict[str, Any]) -> tuple[State, str]:
    message = " ".join(f"{event.get('kind')}: {event.get('message')}".split())
    if event.get("phase") == "method" and "already exists" in message and REPORT_PREFIX in message:
        return "reported_twice", "it reported twice under one name; the first report is kept"
    phase = str(event.get("phase"))
    if phase == "lookup":
        return "raised", _missing(event)
    where = {"import": "importing its class", "constructor": "its constructor"}
    return "raised", f"{where[phase]} raised {message}" if phase in where else f"it raised {message}"


def _missing(event: dict[str, Any]) -> str:
    """The error of a method that the class does not have, with the nearest one that it has."""
    method, known = str(event.get("method")), [str(name) for name in event.get("methods", ())]
    near = closest(method, known) or closest(f"benchmark_{method}", known)
    return f"its class has no method {method}" + (f"; did you mean {near}?" if near else "")


def _where(ended: Ended) -> str:
    if ended.event("started"):
        return "within the method"
    return "in its constructor" if ended.event("imported") else "while its class was imported"
