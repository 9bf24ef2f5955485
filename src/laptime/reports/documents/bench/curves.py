"""Lines of a benchmark: speed against batch size, and a process over time, watched from outside."""

import math
from functools import partial

from laptime.analysis.stat import Stat
from laptime.kit.text import count
from laptime.kit.units import scale as unit_of
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import HEADLINE_ORDER, Series
from laptime.reports import _words as words
from laptime.reports.document import Block, Chart, Folded, Group, Panels, Section, Text
from laptime.reports.documents.bench.table import RATE, Stats, interval_text, numbers_of, regime_of
from laptime.reports.page.plot import Axis, Border, Line, Mark, Plot, Spot, decades, pick_style

_STEEP = 12  # ratio of the largest to the least value from which the axis is logarithmic
MEMORY, CPU = "evidence/process/memory", "evidence/process/cpu"
POINTS = 1000  # points of a line that are drawn; of more, the highest of equal slices of time
_MOST_OPEN = 3


def against_batch(run: Run, stats: list[Stats]) -> Section:
    """Two drawings side by side; nothing if no variant has two batch sizes."""
    tags = {tag for numbers in stats for tag in numbers}
    rate = regime_of(numbers_of(stats, RATE))
    regime = next((r.value for r in HEADLINE_ORDER if f"latency/{r}/median" in tags), "")
    metrics = [
        (RATE, f"Throughput ({rate})" if rate else "Throughput"),
        (f"latency/{regime}/median", f"Median latency ({regime})"),
    ]
    charts: list[Block] = []
    for tag, title in metrics:
        groups: dict[str, list[tuple[int, Stat]]] = {}
        for case, stat in zip(run.cases, numbers_of(stats, tag), strict=True):
            if "batch" in case.axes and stat is not None and stat.value:
                groups.setdefault(words.variant_name(case, run), []).append((case.batch, stat))
        lines = {name: sorted(points, key=lambda point: point[0]) for name, points in groups.items()}
        if lines := {name: points for name, points in lines.items() if len(points) > 1}:
            words_at: dict[int, str] = {}
            for finding in run.findings:
                for word in ("knee", "largest"):
                    value = finding.evidence.get(word)
                    if finding.kind == f"batch/{word}" and isinstance(value, int):
                        words_at[value] = f"{words_at[value]}, {word}" if value in words_at else word
            charts.append(Chart(title, partial(_batches, lines, title, words_at), half=True))
    note = "Vertical bars are 95 % intervals; an interval that is not visible is smaller than the mark."
    blocks: list[Block] = [Panels(charts), Text(note)] if charts else []
    return Section("batch", "Against batch", blocks, detail="page")


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
    """A variant, named if there are several."""
    style = pick_style(at, name if number > 1 else "")
    line = [(batch, stat.value or 0.0) for batch, stat in points]
    texts = [f"batch {batch}: {stat.text} {interval_text(stat)}".rstrip() for batch, stat in points]
    drawn = zip(line, texts, points, strict=True)
    spots = [Spot(*place, style, text, stat.ci95) for place, text, (_, stat) in drawn]
    return [Line(line, f"line {style.colour}"), *spots]


def over_time(run: Run) -> Section:
    """Memory, and CPU time under it, of every case whose process was looked at more than once."""
    cases = [
        Group(words.label(case, run), _charts(found)) for case in run.cases if (found := _find_series(case))
    ]
    folded = Folded(count(len(cases), "case"), cases, open=len(cases) <= _MOST_OPEN)
    return Section("process", "Process over time", [folded], detail="page")


def _charts(found: dict[str, Series]) -> list[Chart]:
    return [
        Chart(title, partial(_plot_series, series, index, title, is_last=index == len(found) - 1))
        for index, (title, series) in enumerate(found.items())
    ]


def _find_series(case: Case) -> dict[str, Series]:
    """The series with times by title, none without memory."""
    found = {"memory": case.find(MEMORY), "CPU time": case.find(CPU)}
    known = {title: s for title, s in found.items() if s and len(s.at) == len(s.samples) > 1}
    return known if "memory" in known else {}


def _plot_series(series: Series, at: int, title: str, *, is_last: bool) -> Plot:
    factor, unit = unit_of(most := max(series.samples) or 1.0, series.metric.unit)
    first, last = min(series.at), max(series.at)
    began = "the method began; before it: import and constructor" if first < 0 else "the run started"
    unit = unit if series.metric.unit == "B" else f"{unit} of one CPU"
    return Plot(
        label=f"{title} over time",
        x=Axis(first, last, f"seconds since {began}" if is_last else ""),
        y=Axis(0.0, most * 1.1, unit=(factor, unit), about=4),
        marks=[Line(_thin(series), f"line c{at}"), *([Border(0.0)] if first < 0 < last else [])],
        height=180,
    )


def _thin(series: Series) -> list[tuple[float, float]]:
    points = list(zip(series.at, series.samples, strict=True))
    width = -(-len(points) // POINTS)
    return [max(points[i : i + width], key=lambda p: p[1]) for i in range(0, len(points), width)]
