"""A history as one page: a drawing a case with every run, the levels between changes, and the changes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup

from laptime.kit.units import scale as unit_of
from laptime.kit.units import show, show_interval
from laptime.records.history import History, Point, Step
from laptime.reports import _words as words
from laptime.reports._history import groups
from laptime.reports._onefile import asset, policy, template
from laptime.reports._svg import SHAPES, Scale, bottom_axis, drawing, el, left_axis, tick_texts

_WIDTH, _HEIGHT = 960.0, 260.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 946.0, 24.0, 222.0
_MOST_LABELS = 8
CLASSES = {"better": "faster", "worse": "slower", "changed": "unclear"}


class Chart(NamedTuple):
    """One case: its drawing and its rows."""

    history: History
    drawing: Markup
    steps: list[tuple[str, Step]]
    rows: Sequence[tuple[str, str, str, str, str]]
    groups: list[tuple[str, str, int]]


def html(histories: Sequence[History], *, by: str) -> str:
    """The whole page; complete, offline, readable without JavaScript."""
    style, script = asset("page.css"), asset("shell.js")
    worse = [each for each in histories if each.steps and each.steps[-1].word == "worse"]
    steps = [step for each in histories for step in each.steps]
    return template(asset("history.html")).render(
        policy=policy(style, script),
        style=Markup(style),  # noqa: S704 (a file of ours)
        script=Markup(script),  # noqa: S704
        charts=[_chart(each, by) for each in histories],
        word="worse" if worse else "changed" if steps else "steady",
        state="invalid" if worse else "noisy" if steps else "trusted",
        steps=len(steps),
        by=by,
    )


def _chart(history: History, by: str) -> Chart:
    rows = [
        (
            point.run,
            point.commit[:10] + ("+" if point.dirty else ""),
            show(point.value, history.unit, point.ci95),
            show_interval(point.ci95, point.value, history.unit),
            point.trust,
        )
        for point in reversed(history.points)
    ]
    own = groups(history, by) if by != "run" else []
    steps = [(CLASSES[step.word], step) for step in history.steps]
    told = [(group.label, show(group.median, history.unit), len(group.points)) for group in own]
    return Chart(history, _drawing(history), steps, rows, told)


def _drawing(history: History) -> Markup:
    points = history.points
    ends = [end for point in points for end in (point.value, *_finite(point))]
    factor, unit = unit_of(max(ends), history.unit)
    middle = (min(ends) + max(ends)) / 2
    reach = max((max(ends) - min(ends)) * 0.56, 0.03 * middle)
    x = Scale(-0.5, len(points) - 0.5, _LEFT, _RIGHT)
    y = Scale(middle - reach, middle + reach, _BOTTOM, _TOP)
    ticks = y.ticks(5)
    parts = [
        el("text", unit.replace("/s", "per second") if unit == "/s" else unit, x=4, y=12, class_="tick"),
        left_axis(y, zip(ticks, tick_texts(ticks, factor), strict=True), x=_LEFT, right=_RIGHT),
        bottom_axis(x, _labels(points), y=_BOTTOM),
        *(_boundary(step, x) for step in history.steps),
        *_levels(history, x, y),
        *(_spot(at, point, history.unit, x, y) for at, point in enumerate(points)),
    ]
    return drawing(
        _WIDTH, _HEIGHT, *parts, label=f"{history.title} of {words.printable(history.case)} by run"
    )


def _finite(point: Point) -> list[float]:
    return [end for end in point.ci95 or () if math.isfinite(end)]


def _labels(points: Sequence[Point]) -> list[tuple[float, str]]:
    """Days under as many runs as have room for one."""
    every = max(1, math.ceil(len(points) / _MOST_LABELS))
    return [(at, words.printable(points[at].started[:10])) for at in range(0, len(points), every)]


def _boundary(step: Step, x: Scale) -> Markup:
    place = x(step.at - 0.5)
    return el("line", x1=place, x2=place, y1=_TOP, y2=_BOTTOM, class_="boundary") + el(
        "text", f"{step.ratio:.2f}x", x=place, y=_TOP - 6, class_="tick middle small"
    )


def _levels(history: History, x: Scale, y: Scale) -> list[Markup]:
    """The median between changes."""
    found = []
    for begin, end in pairwise([0, *(step.at for step in history.steps), len(history.points)]):
        level = y(statistics.median(point.value for point in history.points[begin:end]))
        found.append(el("line", x1=x(begin - 0.5), x2=x(end - 0.5), y1=level, y2=level, class_="median"))
    return found


def _spot(at: int, point: Point, unit: str, x: Scale, y: Scale) -> Markup:
    told = f"{words.printable(point.run)} {words.printable(point.commit[:10])}: "
    told += f"{show(point.value, unit, point.ci95)} {show_interval(point.ci95, point.value, unit)}"
    ends = [y(end) for end in _finite(point)]
    bar = [el("line", x1=x(at), x2=x(at), y1=min(ends), y2=max(ends), class_="line c0")] if ends else []
    mark = el(
        "path", el("title", told), d=f"M{x(at):.1f} {y(point.value):.1f}{SHAPES['ring']}", class_="spot c0"
    )
    return el("g", *bar, mark)
