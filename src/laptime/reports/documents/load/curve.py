"""What a request waits at each rate: the curve, and its knee, where more load buys more than waiting."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from laptime.analysis import load_knee
from laptime.kit.text import count
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


class Knee(NamedTuple):
    """What is said of it. `low`, `high`: requests per second, or users; None: no level bounds it there."""

    low: float | None
    high: float | None
    sentence: str


def knee_section(run: Run, rows: Sequence[Measured]) -> doc.Section:
    """One line; none of a single level, and of a search for the peak, which says more."""
    found = knee_of(run, rows)
    blocks = [doc.Facts(rows=[("knee", found.sentence)])] if found else []
    return doc.Section(id="knee", title="Knee", headed=False, blocks=blocks)


def knee_of(run: Run, rows: Sequence[Measured]) -> Knee | None:
    """The knee of the levels that were asked for."""
    if len(rows) < 2 or any(finding.kind == "load/peak" for finding in run.findings):
        return None
    slo = next((each.facts.slo for each in rows if each.facts.slo), "")
    return _of_promise(rows, slo) if slo else _of_power(rows)


def _of_promise(rows: Sequence[Measured], slo: str) -> Knee:
    found = load_knee.kept_until([each.stats for each in rows if each.stats is not None])
    if found is None:
        return Knee(None, None, f"not known: no level surely keeps or breaks {slo}")
    low, high = found
    if low is None:
        sentence = (
            f"below {_load(high, rows)}, the lowest level that surely breaks {slo}; none surely keeps it"
        )
    elif high is None:
        sentence = f"at {_load(low, rows)} or above: there {slo} holds, and no higher level surely breaks it"
    else:
        sentence = (
            f"between {_load(low, rows)} and {_load(high, rows)}: {slo} holds at the one and surely not at"
        )
        sentence += " the other"
    return Knee(low, high, sentence)


def _of_power(rows: Sequence[Measured]) -> Knee:
    """Of levels whose figures are trusted; those above capacity bound it."""
    told = [each.stats for each in rows if each.stats is not None and _counts(each)]
    found = load_knee.knee(told)
    left_out = [
        _load(load_knee.load_of(each.stats), rows) for each in rows if each.stats and not _counts(each)
    ]
    without = f"; not trusted, and left out: {', '.join(left_out)}" if left_out else ""
    if found is None or (found.low is None and found.high is None):
        return Knee(
            None, None, f"not known: {len(told)} of {len(rows)} levels can be trusted, two are needed"
        )
    low, high = found
    if low is None:
        sentence = f"below {_load(high, rows)}: no level is low enough to say where answers only wait longer"
    elif high is None:
        sentence = f"above {_load(low, rows)}: up to the highest level more load brings more than it costs"
    else:
        sentence = (
            f"between {_load(low, rows)} and {_load(high, rows)}: more load than that mostly waits longer"
        )
    return Knee(low, high, f"{sentence} (answers per second over mean latency is largest there){without}")


def _counts(each: Measured) -> bool:
    assert each.stats is not None
    return each.case.trust == "trusted" or (each.stats.balance.grows and each.case.trust != "invalid")


def _load(load: float | None, rows: Sequence[Measured]) -> str:
    assert load is not None
    return count(int(load), "user") if rows[0].facts.kind == "closed" else f"{load:.4g}/s"
