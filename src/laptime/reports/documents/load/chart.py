"""The latency-rate curve: what a request waits at each rate, with intervals, and where it turns up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from laptime.kit.units import scale as unit_of
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports import document as doc
from laptime.reports.documents.load.levels import Measured
from laptime.reports.page.svg import Scale, bottom_axis, drawing, el, left_axis, legend, line, spot

_WIDTH, _HEIGHT = 820.0, 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 804.0, 26.0, 312.0
_LINES = (("median", 0.5, "ring"), ("p95", 0.95, "triangle"), ("p99", 0.99, "diamond"))


def section(run: Run, rows: Sequence[Measured]) -> doc.Section:
    """Drawn from two levels on."""
    drawn = sorted(
        (each for each in rows if each.stats is not None and each.stats.answered.value),
        key=lambda each: _rate(each),
    )
    blocks = [doc.Chart(title="Latency against rate", draw=lambda: chart(drawn))] if len(drawn) > 1 else []
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


def chart(rows: Sequence[Measured]) -> Markup:
    """Rates on a line, latencies on a logarithmic scale."""
    points = [
        (name, shape, at, each, _value(each, q))
        for at, (name, q, shape) in enumerate(_LINES)
        for each in rows
        if np.isfinite(_value(each, q)) and (_grows(each) or _is_told(each, name))
    ]
    if not points:
        return Markup("")
    values = [value for *_, value in points]
    x = Scale(0.0, 1.08 * max(_rate(each) for each in rows), _LEFT, _RIGHT)
    y = Scale(min(values) / 1.4, max(values) * 1.4, _BOTTOM, _TOP, log=True)
    factor, unit = unit_of(max(values), "s")
    parts = [
        el("text", f"latency, {unit}, logarithmic", x=4, y=12, class_="tick"),
        left_axis(y, [(value, f"{value / factor:g}") for value in y.ticks()], x=_LEFT, right=_RIGHT),
        bottom_axis(x, x.labels(6), y=_BOTTOM),
        el("text", "requests per second", x=_WIDTH / 2, y=_HEIGHT - 12, class_="tick middle"),
    ]
    for at, (name, _, _) in enumerate(_LINES):
        stable = [(x(_rate(e)), y(v)) for n, _, _, e, v in points if n == name and not _grows(e)]
        parts += [line(stable, f"line c{at}")] if len(stable) > 1 else []
    parts += [_mark(name, shape, at, each, value, x, y) for name, shape, at, each, value in points]
    keys = [(shape, f"spot c{at}", [el("span", name)]) for at, (name, _, shape) in enumerate(_LINES)]
    if any(_grows(each) for each in rows):
        keys.append(("cross", "spot c3", [el("span", "above capacity: the queue grows")]))
    return drawing(_WIDTH, _HEIGHT, *parts, label="latency against rate") + legend(keys)


def _is_told(each: Measured, name: str) -> bool:
    return each.stats is not None and each.stats.latency[name].value is not None


def _grows(each: Measured) -> bool:
    return each.stats is not None and each.stats.balance.grows


def _mark(name: str, shape: str, at: int, each: Measured, value: float, x: Scale, y: Scale) -> Markup:
    assert each.stats is not None
    place = x(_rate(each))
    ends = each.stats.latency[name].ci95
    text = words.printable(f"{name} {show(value, 's', ends)} at {_rate(each):.4g}/s")
    if _grows(each):
        return spot(place, y(value), "cross", "spot c3", text)
    whisker = []
    if ends is not None and np.isfinite(ends[1]):
        whisker = [el("line", x1=place, x2=place, y1=y(ends[0]), y2=y(ends[1]), class_=f"line c{at}")]
    return el("g", *whisker, spot(place, y(value), shape, f"spot c{at}", text))
