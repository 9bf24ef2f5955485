"""USD per 1 M against latency: what was measured, with intervals, and what other machines cannot beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from laptime.kit.money import usd
from laptime.kit.units import scale as unit_of
from laptime.kit.units import show
from laptime.records.cost import Cost
from laptime.reports._words import printable
from laptime.reports.page.svg import Scale, bottom_axis, drawing, el, left_axis, legend, spot

_WIDTH, _HEIGHT = 960.0, 380.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 72.0, 940.0, 26.0, 332.0
_COLOURS = 6
_SHAPES = ("ring", "square", "triangle", "diamond", "cross")
_MOST_BOUNDS = 24
_APART = 60.0


class Point(NamedTuple):
    """A mark. `series`: what it belongs to; `ends`: of the interval."""

    kind: str
    series: str
    name: str
    latency: float
    usd: float
    ends: tuple[float, float] | None


def points(cost: Cost) -> list[Point]:
    """Measured lines with a latency, and the cheapest of the bounds."""
    made = [
        Point("measured", line.machine, line.speed.label, line.speed.latency, line.usd_per_million, line.ci95)
        for line in cost.lines
        if line.speed.latency and math.isfinite(line.usd_per_million)
    ]
    bounds = [
        Point("bounded", row.machine.provider, row.machine.name, row.latency, row.usd_per_million, None)
        for row in cost.elsewhere
        if row.kind == "bounded" and row.latency and row.usd_per_million
    ]
    return made + bounds[:_MOST_BOUNDS] if made else []


def chart(drawn: Sequence[Point], units: str) -> Markup:
    """Both axes are logarithmic: costs and latencies of machines differ by factors."""
    costs = [end for point in drawn for end in (point.usd, *(point.ends or ())) if 0 < end < math.inf]
    times = [point.latency for point in drawn]
    x = Scale(min(times) / 1.4, max(times) * 1.4, _LEFT, _RIGHT, log=True)
    y = Scale(min(costs) / 1.4, max(costs) * 1.4, _BOTTOM, _TOP, log=True)
    factor, unit = unit_of(max(times), "s")
    series = list(dict.fromkeys((point.kind, point.series) for point in drawn))
    parts = [
        el("text", f"USD per 1 M {units}, logarithmic", x=4, y=12, class_="tick"),
        left_axis(y, [(value, usd(value)) for value in y.ticks()], x=_LEFT, right=_RIGHT),
        bottom_axis(x, _readable(x, x.labels(6, factor)), y=_BOTTOM),
        el(
            "text",
            f"latency of a call, {unit}, logarithmic",
            x=_WIDTH / 2,
            y=_HEIGHT - 12,
            class_="tick middle",
        ),
        *(_mark(point, series.index((point.kind, point.series)), x, y) for point in reversed(drawn)),
    ]
    keys = [
        (_shape(at), _class(kind, at), [el("span", f"{printable(name) or 'measured'}, {kind}")])
        for at, (kind, name) in enumerate(series)
    ]
    figure = drawing(_WIDTH, _HEIGHT, *parts, label=f"USD per 1 M {units} against latency")
    return figure + legend(keys)


def _readable(x: Scale, labels: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Labels that do not touch."""
    shown: list[tuple[float, str]] = []
    for value, text in labels:
        if not shown or x(value) - x(shown[-1][0]) >= _APART:
            shown.append((value, text))
    return shown


def _shape(at: int) -> str:
    return _SHAPES[at % len(_SHAPES)]


def _class(kind: str, at: int) -> str:
    return f"spot c{at % _COLOURS}" + (" bound" if kind == "bounded" else "")


def _mark(point: Point, at: int, x: Scale, y: Scale) -> Markup:
    """A mark and its whisker, told in words where a mouse rests on it."""
    least = "at least " if point.kind == "bounded" else ""
    text = f"{printable(point.name)} ({printable(point.series)}), {point.kind}: "
    text += f"{least}{usd(point.usd, point.ends)} USD, {least}{show(point.latency, 's')}"
    parts = []
    if point.ends is not None and all(0 < end < math.inf for end in point.ends):
        place, low, high = x(point.latency), y(point.ends[0]), y(point.ends[1])
        parts.append(el("line", x1=place, x2=place, y1=low, y2=high, class_=f"line c{at % _COLOURS}"))
    return el("g", *parts, spot(x(point.latency), y(point.usd), _shape(at), _class(point.kind, at), text))
