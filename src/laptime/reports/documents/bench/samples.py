"""Every sample of every case: drawn over time with its distribution beside it, and each number in a table."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from msgspec import Struct
from numpy.typing import NDArray

from laptime.analysis.evidence import select
from laptime.analysis.quantiles import Floats
from laptime.analysis.summary import Stat
from laptime.kit.units import scale as unit_of
from laptime.kit.units import show, show_interval
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import DISTURBED, Label, Series
from laptime.reports import _words as words
from laptime.reports.document import Block, Cell, Chart, Column, Folded, Group, Row, Section, Table
from laptime.reports.documents.bench.table import Stats
from laptime.reports.page.svg import SHAPES, Scale, bottom_axis, dots, drawing, el, left_axis, tick_texts

_WIDTH, _HEIGHT = 940.0, 300.0
_LEFT, _RIGHT = 64.0, 690.0
_SIDE, _END = 708.0, 850.0
_TOP, _BOTTOM = 14.0, 256.0
_MOST_BOUNDARIES = 12

POINTS = 6000
"""Samples drawn on a whole page, about; a case gets its share of them, at most a third."""


class Kind(NamedTuple):
    """How one sort of sample is drawn and called; `bits` is empty for the plain ones."""

    name: str
    words: str
    shape: str
    bits: int


# The first that fits is what a sample is drawn as.
KINDS = (
    Kind("recompiled", "recompiled", "square", int(Label.RECOMPILED)),
    Kind("warmup", "warm-up", "triangle", int(Label.WARM_UP)),
    Kind("resumed", "resumed after another case", "diamond", int(Label.RESUMED)),
    Kind("disturbed", "disturbed", "cross", int(DISTURBED)),
    Kind("garbage", "garbage collected", "ring", int(Label.GC)),
    Kind("late", "started late", "ring", int(Label.LATE)),
    Kind("used", "undisturbed", "dot", 0),
)


class Figure(Struct, frozen=True, kw_only=True):
    """A drawing with its legend and what was left out of it, and the points for the tooltips."""

    drawing: Markup
    points: dict[str, Any]


def section(run: Run, stats: list[Stats]) -> Section:
    """A group a case."""
    number = sum(bool(s.samples) for c in run.cases for s in c.series if s.metric.tag == "latency")
    most = min(POINTS // 3, max(150, POINTS // max(1, number)))
    note = (
        "Every sample is kept. The line is the median, the band its 95 % interval; both come from the "
        "samples drawn as dots, as far as there are enough of them."
    )
    groups = [
        Group(title=words.label(case, run), blocks=_case(index, case, own, most))
        for index, (case, own) in enumerate(zip(run.cases, stats, strict=True))
        if own
    ]
    return Section(id="samples", title="Samples", note=note, detail="page", blocks=groups)


def _case(index: int, case: Case, stats: Stats, most: int) -> list[Block]:
    """The first regime is seen at once, the others are folded away."""
    timed = [series for series in case.series if series.metric.tag == "latency" and series.samples]
    timed.sort(key=lambda series: series.regime != "isolated")
    charts = [_chart(series, stats, most) for series in timed]
    rest = Folded(title=", ".join(series.regime or "" for series in timed[1:]), blocks=charts[1:])
    table = Folded(title="All numbers of this case", blocks=[_numbers(index, case, stats)])
    return [*charts[:1], rest, table]


def _chart(series: Series, stats: Stats, most: int) -> Chart:
    drawn = cache(partial(figure, series, stats, most=most))
    values = np.asarray(series.samples, dtype=float)
    _, unit = unit_of(float(np.median(_sound(values))), "s")
    return Chart(
        title=f"Latency in {unit}, {series.regime or ''}",
        note=series.note,
        draw=lambda: drawn().drawing,
        points=lambda: drawn().points,
    )


def _numbers(index: int, case: Case, stats: Stats) -> Table:
    columns = [
        Column(title="metric", kind="code"),
        Column(title="value", kind="number"),
        Column(title="95 % interval", kind="number"),
        Column(title="samples", kind="count"),
        Column(title="note"),
    ]
    rows = [
        Row(
            cells=[
                Cell(text=stat.tag, note=_meaning(case, stat)),
                Cell(text=show(stat.value, stat.unit, stat.ci95), value=stat.value),
                Cell(
                    text=show_interval(stat.ci95, stat.value, stat.unit) if stat.ci95 and stat.value else ""
                ),
                stat.n,
                stat.note,
            ],
            key=stat.tag,
        )
        for stat in stats.values()
    ]
    return Table(id=f"number-{index}", columns=columns, rows=rows)


def _meaning(case: Case, stat: Stat) -> str:
    """What the metric means, and when it lies."""
    kind = "latency" if stat.tag.startswith(("latency/", "throughput/")) else stat.tag
    metric = next((s.metric for s in case.series if s.metric.tag == kind), None)
    if metric is None:
        return ""
    lies_when = f"Lies when: {metric.lies_when}" if metric.lies_when else ""
    return " ".join(filter(None, (metric.meaning, lies_when)))


def figure(series: Series, stats: dict[str, Stat], *, most: int) -> Figure:
    """Draw a series with at most about `most` points.

    Args:
        stats: of the case; the median is a line through both parts with its interval as a band, quantiles
            that the samples support are marked beside the distribution.
    """
    median = stats.get(f"latency/{series.regime or ''}/median")
    values = np.asarray(series.samples, dtype=float)
    values = _sound(values)
    at = np.asarray(series.at or range(len(values)), dtype=float)
    kinds = kinds_of(series)
    kept = thinned(values, kinds, most)
    y = _value_scale(values, select(series).values)
    x = Scale(float(at.min()), max(float(at.max()), float(at.min()) + 1e-9), _LEFT, _RIGHT)
    factor, unit = unit_of(float(np.median(values)), "s")
    bars = _spans(values, at, kinds, kept, x, y)
    marks = [
        _marks(kind, at[own], values[own], x, y)
        for index, kind in reversed(list(enumerate(KINDS)))
        if len(own := kept[kinds[kept] == index]) and not (bars and kind.bits == 0)
    ]
    parts = [
        _frame(x, y, factor, seconds=bool(series.at)),
        _boundaries(series, x, at),
        _median(median, y),
        bars,
        *marks,
        _histogram(values, kinds, y),
        _quantiles(stats, series.regime or "", y),
    ]
    label = f"{len(values)} samples over time and their distribution"
    chart = drawing(_WIDTH, _HEIGHT, *parts, label=label, class_="chart samples")
    counts = [(kind, int((kinds == index).sum())) for index, kind in reversed(list(enumerate(KINDS)))]
    legend = el("ul", *(_legend(kind, count) for kind, count in counts if count), class_="legend")
    note = _note(len(kept), len(values), y, factor, unit)
    return Figure(
        drawing=chart + legend + (el("p", note, class_="quiet") if note else ""),
        points=_points(series, kept, values, at, kinds, x, y),
    )


def _sound(values: Floats) -> Floats:
    """Times that an axis can hold."""
    return np.where(np.isfinite(values) & (values > 0), values, 1e-12)


def kinds_of(series: Series) -> NDArray[np.intp]:
    """Index into KINDS of each sample."""
    bits = np.asarray(series.label or [0] * len(series.samples), dtype=int)
    found = np.full(len(bits), len(KINDS) - 1, dtype=np.intp)
    for index in range(len(KINDS) - 2, -1, -1):
        found[(bits & KINDS[index].bits) != 0] = index
    return found


def thinned(values: Floats, kinds: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Positions to draw: all, or of each kind the smallest and largest of equal slices in time."""
    if len(values) <= most:
        return np.arange(len(values))
    places: list[int] = []
    for kind in np.unique(kinds):
        own = np.nonzero(kinds == kind)[0]
        share = max(20, math.ceil(most * len(own) / len(values)))
        if len(own) <= share:
            places += own.tolist()
            continue
        for part in np.array_split(own, max(1, share // 2)):
            places += {int(part[values[part].argmin()]), int(part[values[part].argmax()])}
    return np.asarray(sorted(places), dtype=np.intp)


def _marks(kind: Kind, at: Floats, values: Floats, x: Scale, y: Scale) -> Markup:
    spots = ((x(float(a)), y(float(v))) for a, v in zip(at, values, strict=True))
    return el("path", d=dots(spots, SHAPES[kind.shape]), class_=f"mark {kind.name}")


def _spans(
    values: Floats, at: Floats, kinds: NDArray[np.intp], kept: NDArray[np.intp], x: Scale, y: Scale
) -> Markup:
    """Plain samples that were thinned: a bar from the smallest to the largest of each slice."""
    plain = kept[kinds[kept] == len(KINDS) - 1]
    if len(plain) == int((kinds == len(KINDS) - 1).sum()) or len(plain) < 2:
        return Markup("")
    pairs = ((a, b) for a, b in zip(plain[::2], plain[1::2], strict=False))
    d = "".join(
        f"M{x(float(at[a])):.1f} {y(float(values[a])):.1f}V{y(float(values[b])):.1f}" for a, b in pairs
    )
    return el("path", d=d, class_="mark spans")


def _value_scale(values: Floats, used: Floats) -> Scale:
    """Linear where the used samples lie; what is far above them is squeezed, so that both can be seen."""
    top = float(np.quantile(used, 0.995))
    low = float(min(values.min(), used.min()))
    span = max(top - low, 0.02 * top)
    low = max(0.0, low - 0.08 * span)
    bend, highest = top + 0.35 * span, float(values.max())
    if highest <= bend + 0.5 * span:
        return Scale(low, max(highest, top) + 0.08 * span, _BOTTOM, _TOP)
    return Scale(low, highest, _BOTTOM, _TOP, bend=bend)


def _frame(x: Scale, y: Scale, factor: float, *, seconds: bool) -> Markup:
    ys, xs = y.ticks(5), x.ticks(7)
    parts = [
        left_axis(y, zip(ys, _value_texts(ys, y, factor), strict=True), x=_LEFT, right=_END),
        bottom_axis(x, zip(xs, tick_texts(xs, 1.0), strict=True), y=_BOTTOM),
        el(
            "text",
            "seconds since the run started" if seconds else "sample",
            x=(_LEFT + _RIGHT) / 2,
            y=_HEIGHT - 8,
            class_="tick middle",
        ),
        el("text", "samples", x=(_SIDE + _END) / 2, y=_HEIGHT - 8, class_="tick middle"),
        el("line", x1=_SIDE, x2=_SIDE, y1=_TOP, y2=_BOTTOM, class_="axis"),
    ]
    if y.bend is not None:
        parts.append(el("line", x1=_LEFT, x2=_END, y1=y(y.bend), y2=y(y.bend), class_="bend"))
    return Markup("").join(parts)


def _value_texts(ticks: list[float], y: Scale, factor: float) -> list[str]:
    if y.bend is None:
        return tick_texts(ticks, factor)
    return [*tick_texts(ticks[:-1], factor), _brief(ticks[-1] / factor)]


def _brief(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _boundaries(series: Series, x: Scale, at: Floats) -> Markup:
    """A line where the samples of another process begin; none when they alternate too often."""
    process = series.process
    changes = [i for i in range(1, len(process)) if process[i] != process[i - 1]]
    if not 0 < len(changes) <= _MOST_BOUNDARIES:
        return Markup("")
    middles = [(float(at[i]) + float(at[i - 1])) / 2 for i in changes]
    return Markup("").join(
        el("line", x1=x(m), x2=x(m), y1=_TOP, y2=_BOTTOM, class_="boundary")
        + el("text", f"process {process[i] + 1}", x=x(m) + 5, y=_BOTTOM - 6, class_="tick small")
        for i, m in zip(changes, middles, strict=True)
    )


def _median(median: Stat | None, y: Scale) -> Markup:
    if median is None or median.value is None:
        return Markup("")
    band = Markup("")
    if median.ci95 is not None:
        top, bottom = y(median.ci95[1]), y(median.ci95[0])
        band = el("rect", x=_LEFT, y=top, width=_END - _LEFT, height=max(1.0, bottom - top), class_="band")
    return band + el("line", x1=_LEFT, x2=_END, y1=y(median.value), y2=y(median.value), class_="median")


def _quantiles(stats: dict[str, Stat], regime: str, y: Scale) -> Markup:
    """The median in figures, and names of other quantiles where there is room beside it."""
    taken: list[float] = []
    found = []
    for name in ("median", "p95", "p5", "p99", "p90"):
        stat = stats.get(f"latency/{regime}/{name}")
        if stat is None or stat.value is None:
            continue
        at = y(stat.value)
        if name != "median":
            found.append(el("line", x1=_END - 10, x2=_END, y1=at, y2=at, class_="quantile"))
        if all(abs(at - other) >= 13 for other in taken):
            taken.append(at)
            text = show(stat.value, "s", stat.ci95) if name == "median" else name
            found.append(
                el("text", text, x=_END + 5, y=at + 4, class_="value" if name == "median" else "tick")
            )
    return Markup("").join(found)


def _histogram(values: Floats, kinds: NDArray[np.intp], y: Scale) -> Markup:
    """Bars of equal height on the drawing's own axis: what a median uses, then what it does not."""
    heights = np.asarray([y(float(value)) for value in values])
    bins = int(min(44, max(10, 2 * len(values) ** 0.5)))
    edges = np.linspace(_TOP, _BOTTOM, bins + 1)
    used = kinds >= next(i for i, kind in enumerate(KINDS) if kind.name == "garbage")
    plain, _ = np.histogram(heights[used], edges)
    apart, _ = np.histogram(heights[~used], edges)
    longest = max(1, int((plain + apart).max()))
    thick = (_BOTTOM - _TOP) / bins
    full = _END - _SIDE - 14
    found = [
        el("text", "0", x=_SIDE, y=_BOTTOM + 17, class_="tick middle"),
        el("text", f"{longest:,}", x=_SIDE + full, y=_BOTTOM + 17, class_="tick middle"),
    ]
    for index in range(bins):
        left = _SIDE
        for count, name in ((int(plain[index]), "used"), (int(apart[index]), "apart")):
            if count:
                width = count / longest * full
                found.append(
                    el(
                        "rect",
                        x=left,
                        y=float(edges[index]) + 0.5,
                        width=max(width, 1.0),
                        height=thick - 1,
                        class_=f"bar {name}",
                    )
                )
                left += max(width, 1.0)
    return Markup("").join(found)


def _legend(kind: Kind, count: int) -> Markup:
    path = el("path", d=f"M8 8{SHAPES[kind.shape]}", class_=f"mark {kind.name}")
    key = el("svg", path, viewBox="0 0 16 16", class_="key", aria_hidden="true")
    return el("li", key, el("span", kind.words), " ", el("b", f"{count:,}"))


def _note(drawn: int, total: int, y: Scale, factor: float, unit: str) -> str:
    parts = []
    if drawn < total:
        parts.append(
            f"{drawn:,} of {total:,} samples drawn: bars reach from the smallest to the largest of equal "
            "slices; the numbers use all samples"
        )
    if y.bend is not None:
        parts.append(f"above {_brief(y.bend / factor)} {unit} the axis is squeezed up to the slowest sample")
    return "; ".join(parts)


def _points(
    series: Series,
    kept: NDArray[np.intp],
    values: Floats,
    at: Floats,
    kinds: NDArray[np.intp],
    x: Scale,
    y: Scale,
) -> dict[str, Any]:
    """What the tooltips need: pixels, seconds, latencies, kind, process."""
    process = np.asarray(series.process or [0] * len(values), dtype=int)
    return {
        "kinds": [kind.words for kind in KINDS],
        "x": [round(x(float(value)), 1) for value in at[kept]],
        "y": [round(y(float(value)), 1) for value in values[kept]],
        "at": [round(float(value), 3) for value in at[kept]] if series.at else [],
        "shown": [show(float(f"{value:.4g}"), "s") for value in values[kept]],
        "kind": kinds[kept].tolist(),
        "process": process[kept].tolist() if series.process else [],
    }
