"""Lines of a benchmark: speed against batch size, and a process over time, watched from outside."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from markupsafe import Markup

from laptime.analysis.stat import Stat
from laptime.kit.text import count
from laptime.kit.units import scale as unit_of
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import HEADLINE_ORDER, Series
from laptime.reports import _words as words
from laptime.reports.document import Block, Chart, Folded, Panels, Section, Text
from laptime.reports.documents.bench.table import RATE, Stats, interval_text, numbers_of, regime_of
from laptime.reports.page.plot import Axis, Border, Line, Mark, Panel, Plot, Spot, decades, numbered
from laptime.reports.page.svg import Frame, Scale, drawing, el, frame

_STEEP = 12
"""Ratio of the largest to the least value from which the axis is logarithmic."""
MEMORY, CPU = "evidence/process/memory", "evidence/process/cpu"
POINTS = 1000
"""Points of a line that are drawn; of more, the highest of equal slices of time."""
_HEIGHT, _GAP = 110.0, 46.0
_MOST_OPEN = 3


def against_batch(run: Run, stats: list[Stats]) -> Section:
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
        if lines := {name: points for name, points in lines.items() if len(points) > 1}:
            charts.append(Chart(title=title, plot=partial(_batches, lines, title, _knees(run)), half=True))
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
    words_at: dict[int, str] = {}
    for finding in run.findings:
        for word in ("knee", "largest"):
            value = finding.evidence.get(word)
            if finding.kind == f"batch/{word}" and isinstance(value, int):
                words_at[value] = f"{words_at[value]}, {word}" if value in words_at else word
    return words_at


def _batches(lines: dict[str, list[tuple[int, Stat]]], title: str, knees: dict[int, str]) -> Plot:
    every = [point for points in lines.values() for point in points]
    batches = sorted({batch for batch, _ in every})
    ends = [end for _, stat in every for end in (stat.value or 0.0, *filter(math.isfinite, stat.ci95 or ()))]
    factor, unit = unit_of(max(ends), every[0][1].unit)
    shown = (factor, "items/s" if unit == "/s" else unit)
    positive = [end for end in ends if end > 0]
    steep = max(ends) > _STEEP * min(positive)
    return Plot(
        label=f"{title} against batch",
        x=decades(batches, 1.25, title="batch")._replace(write=lambda *_: [(b, str(b)) for b in batches]),
        y=decades(positive, 1.3, unit=shown) if steep else Axis(0.0, max(ends) * 1.08, unit=shown),
        marks=[
            *(Border(batch, word) for batch, word in knees.items() if batch in batches),
            *(mark for at, name in enumerate(lines) for mark in _line(lines[name], at, name, len(lines))),
        ],
    )


def _line(points: list[tuple[int, Stat]], at: int, name: str, number: int) -> list[Mark]:
    """A variant, named where there are several."""
    style = numbered(at, name if number > 1 else "")
    made: list[Mark] = [
        Line([(batch, stat.value or 0.0) for batch, stat in points], f"line {style.colour}"),
        *(
            Spot(
                batch,
                stat.value or 0.0,
                style,
                f"batch {batch}: {stat.text} {interval_text(stat)}".rstrip(),
                stat.ci95,
            )
            for batch, stat in points
        ),
    ]
    return made


def over_time(run: Run) -> Section:
    """A drawing for every case whose process was looked at more than once."""
    charts = [
        Chart(title=words.label(case, run), plot=partial(_panels, case, memory, case.find(CPU)))
        for case in run.cases
        if (memory := case.find(MEMORY)) and len(memory.at) == len(memory.samples) > 1
    ]
    is_short = len(charts) <= _MOST_OPEN
    return Section(
        id="process",
        title="Process over time",
        detail="page",
        blocks=[Folded(title=count(len(charts), "case"), blocks=charts, open=is_short)],
    )


class _Panels(NamedTuple):
    """Memory above CPU time, over the same seconds."""

    case: Case
    shown: list[tuple[Series, str, str]]

    def drawn(self, width: float) -> Markup:
        """A panel a series; the bottom axis is that of all."""
        height = 24 + len(self.shown) * (_HEIGHT + _GAP)
        whole = frame(width, height, top=24, bottom=_GAP)
        first = self.shown[0][0]
        x = whole.x(min(first.at), max(first.at))
        parts = []
        for at, (series, class_, title) in enumerate(self.shown):
            top = whole.top + at * (_HEIGHT + _GAP)
            parts.append(_panel(series, x, whole._replace(top=top, bottom=top + _HEIGHT), class_, title))
        began = "the method began; before it: import and constructor" if parts[1:] else "the run started"
        parts.append(whole.bottom_axis(x, x.labels(whole.across), f"seconds since {began}"))
        if x.low < 0 < x.high:
            parts.append(Border(0.0).drawn(Panel(whole, x, x)))
        titles = " and ".join(title for _, _, title in self.shown)
        return drawing(
            width, height, *parts, label=words.printable(f"{titles} of {self.case.target} over time")
        )

    def keys(self) -> Markup:
        """None: each panel has its title."""
        return Markup("")

    def points(self) -> None:
        """None: lines have no tooltips."""


def _panels(case: Case, memory: Series, cpu: Series | None) -> _Panels:
    return _Panels(case, [(memory, "line c0", "memory"), *([(cpu, "line c1", "CPU time")] if cpu else [])])


def _panel(series: Series, x: Scale, place: Frame, class_: str, title: str) -> Markup:
    most = max(series.samples) or 1.0
    factor, unit = unit_of(most, series.metric.unit)
    y = place.y(0.0, most * 1.1)
    name = f"{title}, {unit}" if series.metric.unit == "B" else f"{title}, {unit} of one CPU"
    return (
        el("text", name, x=4, y=place.top - 8, class_="tick")
        + place.left_axis(y, y.labels(4, factor))
        + Line(_thinned(series), class_).drawn(Panel(place, x, y))
    )


def _thinned(series: Series) -> list[tuple[float, float]]:
    points = list(zip(series.at, series.samples, strict=True))
    width = -(-len(points) // POINTS)
    return [max(points[i : i + width], key=lambda p: p[1]) for i in range(0, len(points), width)]
