"""A process over time: its memory, and the CPU time of benchmarks that were watched from outside."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from markupsafe import Markup

from laptime.kit.text import count
from laptime.kit.units import scale as unit_of
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import Series
from laptime.reports import _words as words
from laptime.reports.document import Chart, Folded, Section
from laptime.reports.page.axes import Frame, Scale, frame
from laptime.reports.page.plot import Border, Line, Panel
from laptime.reports.page.svg import drawing, el

MEMORY, CPU = "evidence/process/memory", "evidence/process/cpu"
POINTS = 1000
"""Points of a line that are drawn; of more, the highest of equal slices of time."""

_HEIGHT, _GAP = 110.0, 46.0
_MOST_OPEN = 3


def section(run: Run) -> Section:
    """A drawing for every case whose process was looked at more than once."""
    charts = [
        Chart(title=words.label(case, run), plot=partial(_plot, case, memory, case.find(CPU)))
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


def _plot(case: Case, memory: Series, cpu: Series | None) -> _Panels:
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
