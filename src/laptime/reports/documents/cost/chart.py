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
from laptime.reports.page.axes import LETTER, LINE, Frame, Scale, frame
from laptime.reports.page.svg import drawing, el, legend, spot

_COLOURS = 5
_SHAPES = ("ring", "triangle", "diamond", "cross")
_BOUND = "spot c5"
_MOST_BOUNDS = 16


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


def chart(drawn: Sequence[Point], units: str, width: float) -> Markup:
    """Both axes are logarithmic: costs and latencies of machines differ by factors."""
    costs = [end for point in drawn for end in (point.usd, *(point.ends or ())) if 0 < end < math.inf]
    times = [point.latency for point in drawn]
    place = frame(width, 360)
    x = place.x(min(times) / 1.6, max(times) * 1.6, log=True)
    y = place.y(min(costs) / 1.4, max(costs) * 1.4, log=True)
    factor, unit = unit_of(max(times), "s")
    series = _measured(drawn)
    parts = [
        place.left_axis(y, y.labels(place.up), f"USD per 1 M {units}, logarithmic"),
        place.bottom_axis(x, x.labels(place.across, factor), f"latency of a call, {unit}, logarithmic"),
        *(_mark(point, *_style(point, series), x, y) for point in reversed(drawn)),
        *_labels(drawn, x, y, place),
    ]
    return drawing(width, place.height, *parts, label=f"USD per 1 M {units} against latency")


def _measured(drawn: Sequence[Point]) -> list[str]:
    """Machines with a measured mark."""
    return list(dict.fromkeys(point.series for point in drawn if point.kind == "measured"))


def keys(drawn: Sequence[Point]) -> Markup:
    """What the marks mean."""
    made = [
        (_SHAPES[at % len(_SHAPES)], f"spot c{at % _COLOURS}", [el("span", f"{printable(name)}, measured")])
        for at, name in enumerate(_measured(drawn))
    ]
    if any(point.kind == "bounded" for point in drawn):
        made.append(("square", _BOUND, [el("span", "what the cheapest machine of a kind cannot beat")]))
    return legend(made)


def _style(point: Point, series: Sequence[str]) -> tuple[str, str]:
    """Shape and class of a mark."""
    if point.kind == "bounded":
        return "square", _BOUND
    at = series.index(point.series)
    return _SHAPES[at % len(_SHAPES)], f"spot c{at % _COLOURS}"


def _labels(drawn: Sequence[Point], x: Scale, y: Scale, place: Frame) -> list[Markup]:
    """Names beside marks, measured ones first; where there is no room, the tooltip has to do."""
    taken = [(x(point.latency) - 5, x(point.latency) + 5, y(point.usd) + 4) for point in drawn]
    shown = []
    for point in drawn:
        text, at, middle = printable(point.label), x(point.latency), y(point.usd) + 4
        width = LETTER * len(text)
        for left in (at + 8, at - 8 - width):
            is_inside = place.left < left and left + width < place.width
            others = ((begin, end) for begin, end, other in taken if abs(middle - other) < LINE)
            if is_inside and all(left + width < begin or left > end for begin, end in others):
                taken.append((left, left + width, middle))
                shown.append(el("text", text, x=left, y=middle, class_="tick small"))
                break
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
