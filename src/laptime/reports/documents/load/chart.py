"""The latency-rate curve: what a request waits at each rate, with intervals, and where it turns up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from laptime.kit.units import scale as unit_of
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports import document as doc
from laptime.reports.documents.load.levels import Measured
from laptime.reports.page.axes import Scale, frame
from laptime.reports.page.svg import drawing, el, legend, line, spot

_LINES = (("median", 0.5, "ring"), ("p95", 0.95, "triangle"), ("p99", 0.99, "diamond"))


def section(run: Run, rows: Sequence[Measured]) -> doc.Section:
    """Drawn from two levels on."""
    drawn = sorted(
        (each for each in rows if each.stats is not None and each.stats.answered.value),
        key=lambda each: _rate(each),
    )
    points = _points(drawn)
    draw, keys = partial(_draw, points), partial(_keys, points)
    blocks = [doc.Chart(title="", draw=draw, keys=keys)] if len(drawn) > 1 and points else []
    note = "Lines end where the queue grows: crosses are of one window, and a longer window has more."
    return doc.Section(id="curve", title="Latency against rate", note=note, blocks=blocks, detail="page")


def _rate(each: Measured) -> float:
    """Of users what was answered, else what was offered."""
    assert each.stats is not None
    return each.facts.rate or each.stats.answered.value or 0.0


def _value(each: Measured, q: float) -> float:
    assert each.stats is not None
    latency = each.stats.requests.latency[each.stats.steady :]
    return float(np.quantile(latency, q, method="higher"))


class Point(NamedTuple):
    """A quantile of a level; `line` says which of `_LINES` it belongs to."""

    line: int
    level: Measured
    latency: float


def _points(rows: Sequence[Measured]) -> list[Point]:
    """What is known of each level, and what a window of one above capacity saw."""
    return [
        Point(at, each, value)
        for at, (name, q, _) in enumerate(_LINES)
        for each in rows
        if np.isfinite(value := _value(each, q)) and (_grows(each) or _is_told(each, name))
    ]


def _draw(points: Sequence[Point], width: float) -> Markup:
    """Rates on a line, latencies on a logarithmic scale."""
    values = [point.latency for point in points]
    place = frame(width, 340)
    x = place.x(0.0, 1.08 * max(_rate(point.level) for point in points))
    y = place.y(min(values) / 1.4, max(values) * 1.4, log=True)
    factor, unit = unit_of(max(values), "s")
    parts = [
        place.left_axis(y, y.labels(place.up, factor), f"latency, {unit}, logarithmic"),
        place.bottom_axis(x, x.labels(place.across), "requests per second"),
    ]
    for at in range(len(_LINES)):
        stable = [(x(_rate(p.level)), y(p.latency)) for p in points if p.line == at and not _grows(p.level)]
        parts += [line(stable, f"line c{at}")] if len(stable) > 1 else []
    parts += [_mark(point, x, y) for point in points]
    return drawing(width, place.height, *parts, label="latency against rate")


def _keys(points: Sequence[Point]) -> Markup:
    """Only of what is drawn."""
    told = {point.line for point in points if not _grows(point.level)}
    keys = [
        (shape, f"spot c{at}", [el("span", name)]) for at, (name, _, shape) in enumerate(_LINES) if at in told
    ]
    if any(_grows(point.level) for point in points):
        keys.append(("cross", "spot c3", [el("span", "above capacity: the queue grows")]))
    return legend(keys)


def _is_told(each: Measured, name: str) -> bool:
    return each.stats is not None and each.stats.latency[name].value is not None


def _grows(each: Measured) -> bool:
    return each.stats is not None and each.stats.balance.grows


def _mark(point: Point, x: Scale, y: Scale) -> Markup:
    stats, (name, _, shape) = point.level.stats, _LINES[point.line]
    assert stats is not None
    place = x(_rate(point.level))
    ends = stats.latency[name].ci95
    text = words.printable(f"{name} {show(point.latency, 's', ends)} at {_rate(point.level):.4g}/s")
    if _grows(point.level):
        return spot(place, y(point.latency), "cross", "spot c3", text)
    colour, whisker = f"c{point.line}", []
    if ends is not None and np.isfinite(ends[1]):
        whisker = [el("line", x1=place, x2=place, y1=y(ends[0]), y2=y(ends[1]), class_=f"line {colour}")]
    return el("g", *whisker, spot(place, y(point.latency), shape, f"spot {colour}", text))
