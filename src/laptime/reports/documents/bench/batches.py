"""Throughput and latency against batch size, one line for each variant."""

from __future__ import annotations

import math
from functools import partial

from markupsafe import Markup

from laptime.analysis.stat import Stat
from laptime.kit.units import scale as unit_of
from laptime.records.regime import HEADLINE_ORDER
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports.document import Block, Chart, Panels, Section, Text
from laptime.reports.documents.bench.table import RATE, Stats, interval_text, numbers_of, regime_of
from laptime.reports.page.axes import Scale, frame
from laptime.reports.page.svg import drawing, el, legend, line, spot

_SHAPE_ORDER = ("ring", "square", "triangle", "diamond", "cross")
_COLOURS = 6


def section(run: Run, stats: list[Stats]) -> Section:
    """Two drawings side by side; nothing where no variant has two batch sizes."""
    tags = {tag for numbers in stats for tag in numbers}
    rate = regime_of(numbers_of(stats, RATE))
    regime = next((r.value for r in HEADLINE_ORDER if f"latency/{r}/median" in tags), "")
    metrics = [
        (RATE, f"Throughput ({rate})" if rate else "Throughput"),
        (f"latency/{regime}/median", f"Median latency ({regime})"),
    ]
    charts: list[Block] = []
    for tag, title in metrics:
        lines = _by_variant(run, numbers_of(stats, tag))
        points_by_name = {name: points for name, points in lines.items() if len(points) > 1}
        if points_by_name:
            keys = partial(_keys, list(points_by_name)) if len(points_by_name) > 1 else None
            draw = partial(_panel, points_by_name, title, _knees(run))
            charts.append(Chart(title=title, draw=draw, keys=keys, half=True))
    note = "Vertical bars are 95 % intervals; where none is seen, it is smaller than the mark."
    blocks: list[Block] = [Panels(blocks=charts), Text(text=note)] if charts else []
    return Section(id="batch", title="Against batch", detail="page", blocks=blocks)


def _by_variant(run: Run, stats: list[Stat | None]) -> dict[str, list[tuple[int, Stat]]]:
    groups: dict[str, list[tuple[int, Stat]]] = {}
    for case, stat in zip(run.cases, stats, strict=True):
        if "batch" in case.axes and stat is not None and stat.value:
            groups.setdefault(words.variant_name(case, run), []).append((case.batch, stat))
    return {name: sorted(points, key=lambda point: point[0]) for name, points in groups.items()}


def _knees(run: Run) -> dict[int, str]:
    """Batch sizes that findings point at, with the word for each."""
    words_at: dict[int, str] = {}
    for finding in run.findings:
        for word in ("knee", "largest"):
            value = finding.evidence.get(word)
            if finding.kind == f"batch/{word}" and isinstance(value, int):
                words_at[value] = f"{words_at[value]}, {word}" if value in words_at else word
    return words_at


def _panel(
    lines: dict[str, list[tuple[int, Stat]]], title: str, knees: dict[int, str], width: float
) -> Markup:
    place = frame(width, 270)
    every = [point for points in lines.values() for point in points]
    batches = sorted({batch for batch, _ in every})
    ends = [end for _, stat in every for end in (stat.value or 0.0, *filter(math.isfinite, stat.ci95 or ()))]
    factor, unit = unit_of(max(ends), every[0][1].unit)
    positive = [end for end in ends if end > 0]
    steep = max(ends) > 12 * min(positive)
    low, high = (min(positive) / 1.3, max(ends) * 1.3) if steep else (0.0, max(ends) * 1.08)
    x, y = place.x(batches[0] / 1.25, batches[-1] * 1.25, log=True), place.y(low, high, log=steep)
    text = unit if unit != "/s" else "items/s"
    marks = [
        el("line", x1=x(b), x2=x(b), y1=place.top, y2=place.bottom, class_="boundary")
        + el("text", word, x=x(b), y=20, class_="tick middle small")
        for b, word in knees.items()
        if b in batches
    ]
    parts = [
        place.left_axis(y, y.labels(place.up, factor), text + (", logarithmic" if steep else "")),
        place.bottom_axis(x, [(batch, str(batch)) for batch in batches], "batch"),
        *marks,
        *(_line(points, x, y, index) for index, points in enumerate(lines.values())),
    ]
    return drawing(width, place.height, *parts, label=f"{title} against batch")


def _keys(names: list[str]) -> Markup:
    return legend((*_mark(index), [el("span", name)]) for index, name in enumerate(names))


def _mark(index: int) -> tuple[str, str]:
    """Shape and class of the marks of a line."""
    return _SHAPE_ORDER[index % len(_SHAPE_ORDER)], f"spot c{index % _COLOURS}"


def _line(points: list[tuple[int, Stat]], x: Scale, y: Scale, index: int) -> Markup:
    class_ = f"line c{index % _COLOURS}"
    spots = [(x(batch), y(stat.value or 0.0)) for batch, stat in points]
    parts = [line(spots, class_)]
    for (batch, stat), (px, py) in zip(points, spots, strict=True):
        if stat.ci95 is not None:
            ends = [y(end) for end in stat.ci95 if not math.isnan(end)]
            parts.append(
                el("line", x1=px, x2=px, y1=min(ends, default=py), y2=max(ends, default=py), class_=class_)
            )
        text = f"batch {batch}: {stat.text} {interval_text(stat)}".rstrip()
        parts.append(spot(px, py, *_mark(index), text))
    return el("g", *parts)
