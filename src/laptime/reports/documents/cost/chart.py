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

_WIDTH, _HEIGHT = 820.0, 380.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 804.0, 26.0, 332.0
_COLOURS = 5
_SHAPES = ("ring", "triangle", "diamond", "cross")
_BOUND = "spot c5"
_MOST_BOUNDS = 16
_APART = 60.0
_LETTER, _LINE = 6.2, 13.0
"""Pixels of a letter and a line of a label."""


class Point(NamedTuple):
    """A mark. `series`: its machine; `label`: stands beside it where there is room; `ends`: interval."""

    kind: str
    series: str
    name: str
    label: str
    latency: float
    usd: float
    ends: tuple[float, float] | None


def points(cost: Cost) -> list[Point]:
    """Measured lines with a latency; of the bounds the cheapest of each accelerator or kind of core."""
    made = [
        Point(
            kind="measured",
            series=line.machine,
            name=line.speed.label,
            label=line.speed.label if len(cost.lines) > 1 else line.machine,
            latency=line.speed.latency,
            usd=line.usd_per_million,
            ends=line.ci95,
        )
        for line in cost.lines
        if line.speed.latency and math.isfinite(line.usd_per_million)
    ]
    kinds: dict[str, Point] = {}
    for row in cost.elsewhere:
        kind = row.machine.accelerator or "|".join(row.machine.cpu)
        if row.kind == "bounded" and row.latency and row.usd_per_million and kind not in kinds:
            kinds[kind] = Point(
                "bounded", row.machine.name, row.machine.name, kind, row.latency, row.usd_per_million, None
            )
    return made + list(kinds.values())[:_MOST_BOUNDS] if made else []


def chart(drawn: Sequence[Point], units: str) -> Markup:
    """Both axes are logarithmic: costs and latencies of machines differ by factors."""
    costs = [end for point in drawn for end in (point.usd, *(point.ends or ())) if 0 < end < math.inf]
    times = [point.latency for point in drawn]
    x = Scale(min(times) / 1.6, max(times) * 1.6, _LEFT, _RIGHT, log=True)
    y = Scale(min(costs) / 1.4, max(costs) * 1.4, _BOTTOM, _TOP, log=True)
    factor, unit = unit_of(max(times), "s")
    series = list(dict.fromkeys(point.series for point in drawn if point.kind == "measured"))
    parts = [
        el("text", f"USD per 1 M {units}, logarithmic", x=4, y=12, class_="tick"),
        left_axis(y, [(value, usd(value)) for value in y.ticks()], x=_LEFT, right=_RIGHT),
        bottom_axis(x, _readable(x, _ticks(x, factor)), y=_BOTTOM),
        el(
            "text",
            f"latency of a call, {unit}, logarithmic",
            x=_WIDTH / 2,
            y=_HEIGHT - 8,
            class_="tick middle",
        ),
        *(_mark(point, *_style(point, series), x, y) for point in reversed(drawn)),
        *_labels(drawn, x, y),
    ]
    keys = [
        (_SHAPES[at % len(_SHAPES)], f"spot c{at % _COLOURS}", [el("span", f"{printable(name)}, measured")])
        for at, name in enumerate(series)
    ]
    if any(point.kind == "bounded" for point in drawn):
        keys.append(("square", _BOUND, [el("span", "what the cheapest machine of a kind cannot beat")]))
    figure = drawing(_WIDTH, _HEIGHT, *parts, label=f"USD per 1 M {units} against latency")
    return figure + legend(keys)


def _style(point: Point, series: Sequence[str]) -> tuple[str, str]:
    """Shape and class of a mark."""
    if point.kind == "bounded":
        return "square", _BOUND
    at = series.index(point.series)
    return _SHAPES[at % len(_SHAPES)], f"spot c{at % _COLOURS}"


def _ticks(x: Scale, factor: float) -> list[tuple[float, str]]:
    return [(value, f"{value / factor:g}") for value in x.ticks()]


def _readable(x: Scale, labels: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Labels that do not touch."""
    shown: list[tuple[float, str]] = []
    for value, text in labels:
        if not shown or x(value) - x(shown[-1][0]) >= _APART:
            shown.append((value, text))
    return shown


def _labels(drawn: Sequence[Point], x: Scale, y: Scale) -> list[Markup]:
    """Names beside marks, measured ones first; where there is no room, the tooltip has to do."""
    taken = [(x(point.latency) - 5, x(point.latency) + 5, y(point.usd) + 4) for point in drawn]
    shown = []
    for point in drawn:
        text = printable(point.label)
        left, middle, width = x(point.latency) + 8, y(point.usd) + 4, _LETTER * len(text)
        left = left if left + width < _RIGHT else left - width - 18
        is_free = all(
            abs(middle - other) >= _LINE or left + width < begin or left > end for begin, end, other in taken
        )
        if is_free and left > _LEFT:
            taken.append((left, left + width, middle))
            shown.append(el("text", text, x=left, y=middle, class_="tick small"))
    return shown


def _mark(point: Point, shape: str, class_: str, x: Scale, y: Scale) -> Markup:
    """A mark and its whisker, told in words where a mouse rests on it."""
    least = "at least " if point.kind == "bounded" else ""
    text = f"{printable(point.name)} ({printable(point.series)}), {point.kind}: "
    text += f"{least}{usd(point.usd, point.ends)} USD, {least}{show(point.latency, 's')}"
    parts = []
    if point.ends is not None and all(0 < end < math.inf for end in point.ends):
        place, low, high = x(point.latency), y(point.ends[0]), y(point.ends[1])
        parts.append(el("line", x1=place, x2=place, y1=low, y2=high, class_=class_.replace("spot", "line")))
    return el("g", *parts, spot(x(point.latency), y(point.usd), shape, class_, text))
