"""A process over time: its memory, and the CPU time of benchmarks that were watched from outside."""

from __future__ import annotations

from functools import partial

from markupsafe import Markup

from laptime.kit.text import count
from laptime.kit.units import scale as unit_of
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import Series
from laptime.reports import _words as words
from laptime.reports.document import Chart, Folded, Section
from laptime.reports.page.axes import Frame, Scale, frame
from laptime.reports.page.svg import drawing, el, line

MEMORY, CPU = "evidence/process/memory", "evidence/process/cpu"
POINTS = 1000
"""Points of a line that are drawn; of more, the highest of equal slices of time."""

_HEIGHT, _GAP = 110.0, 46.0
_MOST_OPEN = 3


def section(run: Run) -> Section:
    """A drawing for every case whose process was looked at more than once."""
    charts = [
        Chart(title=words.label(case, run), draw=partial(_drawn, case, memory, case.find(CPU)))
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


def _drawn(case: Case, memory: Series, cpu: Series | None, width: float) -> Markup:
    panels = [(memory, "line c0", "memory")] + ([(cpu, "line c1", "CPU time")] if cpu else [])
    whole = frame(width, 24 + len(panels) * (_HEIGHT + _GAP), top=24, bottom=_GAP)
    x = whole.x(min(memory.at), max(memory.at))
    tops = [whole.top + index * (_HEIGHT + _GAP) for index in range(len(panels))]
    parts = [
        _panel(series, x, whole._replace(top=top, bottom=top + _HEIGHT), class_, title)
        for top, (series, class_, title) in zip(tops, panels, strict=True)
    ]
    caption = "the method began; before it: import and constructor" if cpu else "the run started"
    parts.append(whole.bottom_axis(x, x.labels(whole.across), f"seconds since {caption}"))
    if x.low < 0 < x.high:
        parts.append(el("line", x1=x(0.0), x2=x(0.0), y1=whole.top, y2=whole.bottom, class_="boundary"))
    label = f"{' and '.join(title for _, _, title in panels)} of {words.printable(case.target)} over time"
    return drawing(width, whole.height, *parts, label=label)


def _panel(series: Series, x: Scale, place: Frame, class_: str, title: str) -> Markup:
    most = max(series.samples) or 1.0
    factor, unit = unit_of(most, series.metric.unit)
    y = place.y(0.0, most * 1.1 / factor)
    name = f"{title}, {unit}" if series.metric.unit == "B" else f"{title}, {unit} of one CPU"
    return Markup("").join(
        (
            el("text", name, x=4, y=place.top - 8, class_="tick"),
            place.left_axis(y, y.labels(4)),
            line([(x(at), y(value / factor)) for at, value in _thinned(series)], class_),
        )
    )


def _thinned(series: Series) -> list[tuple[float, float]]:
    points = list(zip(series.at, series.samples, strict=True))
    width = -(-len(points) // POINTS)
    return [max(points[i : i + width], key=lambda p: p[1]) for i in range(0, len(points), width)]
