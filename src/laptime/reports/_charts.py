"""Drawings of several cases: against batch, comparisons, start-up, memory."""

from __future__ import annotations

import math
from typing import NamedTuple

from markupsafe import Markup

from laptime.analysis.summary import Stat
from laptime.kit.units import scale as unit_of
from laptime.kit.units import show, show_interval
from laptime.records.case import Case
from laptime.records.comparison import Comparison
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports._svg import SHAPES, Scale, bottom_axis, drawing, el, left_axis, tick_texts
from laptime.reports._view import Stats

_SHAPE_ORDER = ("ring", "square", "triangle", "diamond", "cross")
_COLOURS = 6
_STRIP = 260.0


class Panel(NamedTuple):
    """One drawing with its title and what its lines are."""

    title: str
    drawing: Markup
    legend: list[tuple[Markup, str]]


def against_batch(run: Run, stats: list[Stats], metrics: list[tuple[str, str]]) -> list[Panel]:
    """A panel for each (tag, title), one line for each variant with at least two batch sizes."""
    lines = _by_variant(run, stats)
    found = []
    for tag, title in metrics:
        own = {
            name: points
            for name, cases in lines.items()
            if len(points := [(c.batch, s[tag]) for c, s in cases if tag in s and s[tag].value]) > 1
        }
        if own:
            legend = [(_key(index), name) for index, name in enumerate(own)] if len(own) > 1 else []
            found.append(Panel(title, _panel(own, title, _knees(run)), legend))
    return found


def _by_variant(run: Run, stats: list[Stats]) -> dict[str, list[tuple[Case, Stats]]]:
    several = len({case.target for case in run.cases}) > 1
    found: dict[str, list[tuple[Case, Stats]]] = {}
    for case, own in zip(run.cases, stats, strict=True):
        if "batch" not in case.axes:
            continue
        parts = [words.printable(case.target)] if several else []
        name = ", ".join([*parts, *words.variant(case, run, batch=False)])
        found.setdefault(name, []).append((case, own))
    return {name: sorted(cases, key=lambda pair: pair[0].batch) for name, cases in found.items()}


def _knees(run: Run) -> dict[int, str]:
    """Batch sizes that findings point at, with the word for each."""
    found: dict[int, str] = {}
    for finding in run.findings:
        for word in ("knee", "largest"):
            value = finding.evidence.get(word)
            if finding.kind == f"batch/{word}" and isinstance(value, int):
                found[value] = f"{found[value]}, {word}" if value in found else word
    return found


def _panel(lines: dict[str, list[tuple[int, Stat]]], title: str, knees: dict[int, str]) -> Markup:
    width, height = 460.0, 270.0
    every = [point for points in lines.values() for point in points]
    batches = sorted({batch for batch, _ in every})
    ends = [end for _, stat in every for end in (stat.value or 0.0, *_finite(stat))]
    factor, unit = unit_of(max(ends), every[0][1].unit)
    positive = [end for end in ends if end > 0]
    steep = max(ends) > 12 * min(positive)
    low, high = (min(positive) / 1.3, max(ends) * 1.3) if steep else (0.0, max(ends) * 1.08)
    x = Scale(batches[0] / 1.25, batches[-1] * 1.25, 58, width - 14, log=True)
    y = Scale(low, high, height - 44, 26, log=steep)
    ticks = y.ticks(5)
    text = unit if unit != "/s" else "items/s"
    marks = [
        el("line", x1=x(b), x2=x(b), y1=26, y2=height - 44, class_="boundary")
        + el("text", word, x=x(b), y=20, class_="tick middle small")
        for b, word in knees.items()
        if b in batches
    ]
    parts = [
        el("text", text + (", logarithmic" if steep else ""), x=4, y=12, class_="tick"),
        left_axis(y, zip(ticks, tick_texts(ticks, factor), strict=True), x=58, right=width - 14),
        bottom_axis(x, [(b, str(b)) for b in _apart(batches, x)], y=height - 44),
        el("text", "batch", x=(58 + width - 14) / 2, y=height - 8, class_="tick middle"),
        *marks,
        *(_line(points, x, y, index) for index, points in enumerate(lines.values())),
    ]
    return drawing(width, height, *parts, label=f"{title} against batch")


def _apart(batches: list[int], x: Scale) -> list[int]:
    """The batch sizes whose numbers do not touch on the axis."""
    found: list[int] = []
    for batch in batches:
        if not found or x(batch) - x(found[-1]) >= 26:
            found.append(batch)
    return found


def _line(points: list[tuple[int, Stat]], x: Scale, y: Scale, index: int) -> Markup:
    class_ = f"line c{index % _COLOURS}"
    spots = [(x(batch), y(stat.value or 0.0)) for batch, stat in points]
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in spots)
    parts = [el("path", d=path, class_=class_)]
    for (batch, stat), (px, py) in zip(points, spots, strict=True):
        if stat.ci95 is not None:
            ends = [y(end) for end in stat.ci95 if not math.isnan(end)]
            parts.append(
                el("line", x1=px, x2=px, y1=min(ends, default=py), y2=max(ends, default=py), class_=class_)
            )
        text = f"batch {batch}: {show(stat.value, stat.unit, stat.ci95)}"
        if stat.ci95 is not None and stat.value is not None:
            text += f" {show_interval(stat.ci95, stat.value, stat.unit)}"
        mark = SHAPES[_SHAPE_ORDER[index % len(_SHAPE_ORDER)]]
        parts.append(
            el("path", el("title", text), d=f"M{px:.1f} {py:.1f}{mark}", class_=f"spot c{index % _COLOURS}")
        )
    return el("g", *parts)


def _key(index: int) -> Markup:
    path = el(
        "path", d=f"M8 8{SHAPES[_SHAPE_ORDER[index % len(_SHAPE_ORDER)]]}", class_=f"spot c{index % _COLOURS}"
    )
    return el("svg", path, viewBox="0 0 16 16", class_="key", aria_hidden="true")


def _finite(stat: Stat) -> list[float]:
    return [end for end in stat.ci95 or () if math.isfinite(end)]


def speedups(comparisons: list[Comparison]) -> list[Markup]:
    """A strip for each comparison, all on one logarithmic axis: the margin, 1.0, interval and estimate."""
    x = _speed_scale(comparisons)
    return [_speedup(each, x) for each in comparisons]


def speed_axis(comparisons: list[Comparison]) -> Markup:
    """The axis that the strips of `speedups` share."""
    x = _speed_scale(comparisons)
    ticks = [(value, f"{value:g}x") for value in _speed_ticks(x.high)]
    texts = (el("text", text, x=x(value), y=12, class_="tick middle") for value, text in ticks)
    lines = (el("line", x1=x(value), x2=x(value), y1=16, y2=20, class_="axis") for value, _ in ticks)
    return drawing(_STRIP, 20, *texts, *lines, label="times the baseline's speed", class_="strip chart")


def _speed_scale(comparisons: list[Comparison]) -> Scale:
    known = [v for each in comparisons for v in (each.speedup, *each.ci95) if math.isfinite(v) and v > 0]
    widest = min(max([abs(math.log(v)) for v in known] + [math.log(1.05)]), math.log(1e6)) * 1.15
    return Scale(math.exp(-widest), math.exp(widest), 8, _STRIP - 8, log=True)


def _speed_ticks(high: float) -> list[float]:
    """1 and a round factor to each side of it, as large as the axis can show without touching its edge."""
    factors = (1000, 100, 10, 5, 4, 3, 2, 1.5, 1.25, 1.2, 1.1, 1.05, 1.02)
    factor = next((f for f in factors if math.log(f) <= 0.85 * math.log(high)), 1.02)
    return [1 / factor if factor in (1000, 100, 10, 5, 4, 2, 1.25) else round(1 / factor, 3), 1.0, factor]


def _speedup(each: Comparison, x: Scale) -> Markup:
    low, high = (
        x(v) if math.isfinite(v) and v > 0 else edge
        for v, edge in zip(each.ci95, (x.start, x.end), strict=True)
    )
    left, right = x(1 / (1 + each.margin)), x(1 + each.margin)
    parts = [
        el("rect", x=left, width=max(1.0, right - left), y=0, height=32, class_="margin"),
        el("line", x1=x(1.0), x2=x(1.0), y1=0, y2=32, class_="axis"),
        el("line", x1=low, x2=high, y1=16, y2=16, class_=f"interval {each.word}"),
        el("line", x1=low, x2=low, y1=11, y2=21, class_=f"interval {each.word}"),
        el("line", x1=high, x2=high, y1=11, y2=21, class_=f"interval {each.word}"),
    ]
    if math.isfinite(each.speedup) and each.speedup > 0:
        parts.append(el("circle", cx=x(each.speedup), cy=16, r=4.5, class_=f"estimate {each.word}"))
    return drawing(
        _STRIP, 32, *parts, label=f"{each.word}, {each.speedup:.3g} times the speed", class_="strip"
    )


class Bar(NamedTuple):
    """One row of a bar table."""

    name: str
    text: str
    drawing: Markup
    note: str


def bars(stats: list[Stat], names: list[str]) -> list[Bar]:
    """Bars from zero on one axis."""
    most = max((s.value or 0.0 for s in stats if math.isfinite(s.value or 0.0)), default=0.0)
    x = Scale(0.0, most or 1.0, 0, _STRIP)
    return [
        Bar(
            name,
            show(stat.value, stat.unit, stat.ci95),
            _bar(0.0, _sound(stat), x, "whole"),
            words.printable(stat.note),
        )
        for stat, name in zip(stats, names, strict=True)
    ]


def waterfall(parts: list[Stat]) -> list[Bar]:
    """The start, one part after the other.

    The warm-up has the first call in it, and compiling is a part of the first call, so both begin with it.
    """
    begin: dict[str, float] = {}
    now = 0.0
    for stat in parts:
        begin[stat.tag] = begin.get("time/compile", now) if stat.tag == "time/first_call" else now
        if stat.tag == "time/warm_up":
            begin[stat.tag] = begin.get("time/first_call", now)
        elif stat.tag != "time/compile":
            now = begin[stat.tag] + _sound(stat)
    x = Scale(0.0, max((begin[s.tag] + _sound(s) for s in parts), default=0.0) or 1.0, 0, _STRIP)
    return [
        Bar(
            words.printable(stat.title),
            show(stat.value, stat.unit, stat.ci95),
            _bar(begin[stat.tag], _sound(stat), x, stat.tag.rpartition("/")[2]),
            words.printable(stat.note),
        )
        for stat in parts
    ]


def _sound(stat: Stat) -> float:
    value = stat.value or 0.0
    return value if math.isfinite(value) and value > 0 else 0.0


def _bar(start: float, length: float, x: Scale, class_: str) -> Markup:
    left, right = x(start), x(start + length)
    parts = (
        el("rect", x=0, y=7, width=_STRIP, height=6, rx=3, class_="track"),
        el("rect", x=left, y=4, width=max(1.5, right - left), height=12, rx=2, class_=f"bar {class_}"),
    )
    return drawing(_STRIP, 20, *parts, label="", class_="strip")
