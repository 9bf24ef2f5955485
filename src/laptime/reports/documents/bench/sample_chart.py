"""Samples of one series as a drawing: each over time, their distribution at its side, on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from laptime.analysis.evidence import select
from laptime.analysis.quantiles import Floats
from laptime.analysis.stat import Stat
from laptime.kit.units import scale as unit_of
from laptime.kit.units import show
from laptime.records.series import DISTURBED, Label, Series
from laptime.reports.page import svg
from laptime.reports.page.axes import BROAD, Frame, Scale, frame, tick_texts

_GAP, _WORDS = 26.0, 68.0
"""Between samples and distribution; for what is written at the right of it."""
_MOST_BOUNDARIES = 12

Places = NDArray[np.intp]


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
    Kind("resumed", "while not all instances worked", "diamond", int(Label.ALONE)),
    Kind("disturbed", "disturbed", "cross", int(DISTURBED)),
    Kind("garbage", "garbage collected", "ring", int(Label.GC)),
    Kind("late", "started late", "ring", int(Label.LATE)),
    Kind("used", "undisturbed", "dot", 0),
)
_PLAIN = len(KINDS) - 1


class Plot(NamedTuple):
    """What is drawn: every sample with its kind, the places of those that get a mark, and the scales.

    Attributes:
        over_time: where samples are drawn over time.
        side: where their distribution is drawn.
    """

    series: Series
    values: Floats
    at: Floats
    kinds: Places
    drawn: Places
    over_time: Frame
    side: Frame
    x: Scale
    y: Scale
    factor: float
    unit: str


def plot(series: Series, width: float, *, most: int, beside: Sequence[Series] = ()) -> Plot:
    """The scales of a series for a drawing of this width.

    Args:
        most: samples that are drawn, at most about.
        beside: what it is compared with: all of them have one axis.
    """
    values, together = _sound(series), beside or [series]
    at = np.asarray(series.at or range(len(values)), dtype=float)
    kinds = kinds_of(series)
    side = frame(width, 300, left=0.76 * (width - _WORDS), right=_WORDS, top=14)
    over_time = frame(width, 300, right=width - side.left + _GAP, top=14)
    x = over_time.x(float(at.min()), max(float(at.max()), float(at.min()) + 1e-9))
    everything = np.concatenate([_sound(each) for each in together])
    used = np.concatenate([select(each).values for each in together])
    y = _value_scale(everything, used, over_time)
    drawn = thinned(values, kinds, int(most * width / BROAD))
    return Plot(series, values, at, kinds, drawn, over_time, side, x, y, *unit(together))


def unit(together: Sequence[Series]) -> tuple[float, str]:
    """The unit of the axis of these series, with its factor."""
    return unit_of(float(np.median(np.concatenate([_sound(each) for each in together]))), "s")


def _sound(series: Series) -> Floats:
    """Times that an axis can hold."""
    values = np.asarray(series.samples, dtype=float)
    return np.where(np.isfinite(values) & (values > 0), values, 1e-12)


def draw(plot: Plot, stats: dict[str, Stat]) -> Markup:
    """The drawing.

    Args:
        stats: of the case; the median is a line through both parts with its interval as a band, quantiles
            that the samples support are marked beside the distribution.
    """
    regime = plot.series.regime or ""
    spans = _spans(plot)
    marks = [
        _marks(plot, index)
        for index in reversed(range(len(KINDS)))
        if (plot.kinds[plot.drawn] == index).any() and not (spans and index == _PLAIN)
    ]
    parts = [
        _frame(plot),
        _boundaries(plot),
        _median(stats.get(f"latency/{regime}/median"), plot),
        spans,
        *marks,
        _histogram(plot),
        _quantiles(stats, regime, plot),
    ]
    label = f"{len(plot.values)} samples over time and their distribution"
    place = plot.side
    return svg.drawing(place.width, place.height, *parts, label=label, class_="chart samples")


def keys(plot: Plot) -> Markup:
    """What the marks mean, and what was left out of the drawing."""
    note = _note(plot)
    return _legend(plot.kinds) + (svg.el("p", note, class_="quiet") if note else Markup(""))


def kinds_of(series: Series) -> NDArray[np.intp]:
    """Index into KINDS of each sample."""
    bits = np.asarray(series.label or [0] * len(series.samples), dtype=int)
    kinds = np.full(len(bits), _PLAIN, dtype=np.intp)
    for index in reversed(range(_PLAIN)):
        kinds[(bits & KINDS[index].bits) != 0] = index
    return kinds


def thinned(values: Floats, kinds: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Positions to draw: all, or of each kind the smallest and largest of equal slices in time."""
    if len(values) <= most:
        return np.arange(len(values))
    places: list[int] = []
    for kind in np.unique(kinds):
        these = np.nonzero(kinds == kind)[0]
        share = max(20, math.ceil(most * len(these) / len(values)))
        if len(these) <= share:
            places += these.tolist()
            continue
        for part in np.array_split(these, max(1, share // 2)):
            places += {int(part[values[part].argmin()]), int(part[values[part].argmax()])}
    return np.asarray(sorted(places), dtype=np.intp)


def _marks(plot: Plot, kind: int) -> Markup:
    places = plot.drawn[plot.kinds[plot.drawn] == kind]
    spots = ((plot.x(float(plot.at[i])), plot.y(float(plot.values[i]))) for i in places)
    return svg.el("path", d=svg.dots(spots, svg.SHAPES[KINDS[kind].shape]), class_=f"mark {KINDS[kind].name}")


def _spans(plot: Plot) -> Markup:
    """Plain samples that were thinned: a bar from the smallest to the largest of each slice."""
    plain = plot.drawn[plot.kinds[plot.drawn] == _PLAIN]
    if len(plain) == int((plot.kinds == _PLAIN).sum()) or len(plain) < 2:
        return Markup("")
    pairs = zip(plain[::2], plain[1::2], strict=False)
    d = "".join(
        f"M{plot.x(float(plot.at[a])):.1f} {plot.y(float(plot.values[a])):.1f}"
        f"V{plot.y(float(plot.values[b])):.1f}"
        for a, b in pairs
    )
    return svg.el("path", d=d, class_="mark spans")


def _value_scale(values: Floats, used: Floats, place: Frame) -> Scale:
    """Linear where the used samples lie; what is far above them is squeezed, so that both can be seen."""
    top = float(np.quantile(used, 0.995))
    low = float(min(values.min(), used.min()))
    span = max(top - low, 0.02 * top)
    low = max(0.0, low - 0.08 * span)
    bend, highest = top + 0.35 * span, float(values.max())
    if highest <= bend + 0.5 * span:
        return place.y(low, max(highest, top) + 0.08 * span)
    return place.y(low, highest)._replace(bend=bend)


def _frame(plot: Plot) -> Markup:
    x, y, place, side = plot.x, plot.y, plot.over_time, plot.side
    ys = y.ticks(place.up)
    texts = tick_texts(ys, plot.factor)
    if y.bend is not None:
        texts = [*tick_texts(ys[:-1], plot.factor), _brief(ys[-1] / plot.factor)]
    below = "seconds since the run started" if plot.series.at else "sample"
    parts = [
        place._replace(right=side.right).left_axis(y, list(zip(ys, texts, strict=True))),
        place.bottom_axis(x, x.labels(place.across), below),
        svg.el("line", x1=side.left, x2=side.left, y1=side.top, y2=side.bottom, class_="axis"),
    ]
    if y.bend is not None:
        parts.append(svg.el("line", x1=place.left, x2=side.right, y1=y(y.bend), y2=y(y.bend), class_="bend"))
    return Markup("").join(parts)


def _brief(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _boundaries(plot: Plot) -> Markup:
    """A line where the samples of another process begin; none when they alternate too often."""
    process, x, at, place = plot.series.process, plot.x, plot.at, plot.over_time
    changes = [i for i in range(1, len(process)) if process[i] != process[i - 1]]
    if not 0 < len(changes) <= _MOST_BOUNDARIES:
        return Markup("")
    middles = [(float(at[i]) + float(at[i - 1])) / 2 for i in changes]
    return Markup("").join(
        svg.el("line", x1=x(m), x2=x(m), y1=place.top, y2=place.bottom, class_="boundary")
        + svg.el("text", f"process {process[i] + 1}", x=x(m) + 5, y=place.bottom - 6, class_="tick small")
        for i, m in zip(changes, middles, strict=True)
    )


def _median(median: Stat | None, plot: Plot) -> Markup:
    if median is None or median.value is None:
        return Markup("")
    y, left, right, band = plot.y, plot.over_time.left, plot.side.right, Markup("")
    if median.ci95 is not None:
        top, bottom = y(median.ci95[1]), y(median.ci95[0])
        band = svg.el("rect", x=left, y=top, width=right - left, height=max(1.0, bottom - top), class_="ci")
    return band + svg.el("line", x1=left, x2=right, y1=y(median.value), y2=y(median.value), class_="median")


def _quantiles(stats: dict[str, Stat], regime: str, plot: Plot) -> Markup:
    """The median in figures, and names of other quantiles where there is room beside it."""
    taken: list[float] = []
    marks, y, end = [], plot.y, plot.side.right
    for name in ("median", "p95", "p5", "p99", "p90"):
        stat = stats.get(f"latency/{regime}/{name}")
        if stat is None or stat.value is None:
            continue
        at = y(stat.value)
        if name != "median":
            marks.append(svg.el("line", x1=end - 10, x2=end, y1=at, y2=at, class_="quantile"))
        if all(abs(at - other) >= 13 for other in taken):
            taken.append(at)
            text = show(stat.value, "s", stat.ci95) if name == "median" else name
            marks.append(
                svg.el("text", text, x=end + 5, y=at + 4, class_="value" if name == "median" else "tick")
            )
    return Markup("").join(marks)


def _histogram(plot: Plot) -> Markup:
    """Bars of equal height on the drawing's own axis: what a median uses, then what it does not."""
    heights = np.asarray([plot.y(float(value)) for value in plot.values])
    bins = int(min(44, max(10, 2 * len(heights) ** 0.5)))
    place = plot.side
    edges = np.linspace(place.top, place.bottom, bins + 1)
    used = plot.kinds >= next(i for i, kind in enumerate(KINDS) if kind.name == "garbage")
    plain, _ = np.histogram(heights[used], edges)
    apart, _ = np.histogram(heights[~used], edges)
    longest = max(1, int((plain + apart).max()))
    thick = (place.bottom - place.top) / bins
    x = Scale(0, longest, place.left, place.right - 14)
    parts = [place.bottom_axis(x, [(0, "0"), (longest, f"{longest:,}")], "samples")]
    for index in range(bins):
        left, top = place.left, float(edges[index]) + 0.5
        for count, name in ((int(plain[index]), "used"), (int(apart[index]), "apart")):
            if count:
                width = max(x(count) - place.left, 1.0)
                parts.append(
                    svg.el("rect", x=left, y=top, width=width, height=thick - 1, class_=f"bar {name}")
                )
                left += width
    return Markup("").join(parts)


def _legend(kinds: Places) -> Markup:
    items = []
    for index, kind in reversed(list(enumerate(KINDS))):
        if count := int((kinds == index).sum()):
            texts = [svg.el("span", kind.words), " ", svg.el("b", f"{count:,}")]
            items.append((kind.shape, f"mark {kind.name}", texts))
    return svg.legend(items)


def _note(plot: Plot) -> str:
    parts = []
    if len(plot.drawn) < len(plot.values):
        parts.append(
            f"{len(plot.drawn):,} of {len(plot.values):,} samples drawn: bars reach from the smallest to the "
            "largest of equal slices; the numbers use all samples"
        )
    if plot.y.bend is not None:
        bend = f"{_brief(plot.y.bend / plot.factor)} {plot.unit}"
        parts.append(f"above {bend} the axis is squeezed up to the slowest sample")
    return "; ".join(parts)


def points(plot: Plot) -> dict[str, Any]:
    """What the tooltips need: words of the kinds; pixels, seconds, latency, kind and process of each mark."""
    series, drawn = plot.series, plot.drawn
    process = np.asarray(series.process or [0] * len(plot.values), dtype=int)
    return {
        "kinds": [kind.words for kind in KINDS],
        "x": [round(plot.x(float(value)), 1) for value in plot.at[drawn]],
        "y": [round(plot.y(float(value)), 1) for value in plot.values[drawn]],
        "at": [round(float(value), 3) for value in plot.at[drawn]] if series.at else [],
        "shown": [show(float(f"{value:.4g}"), "s") for value in plot.values[drawn]],
        "kind": plot.kinds[drawn].tolist(),
        "process": process[drawn].tolist() if series.process else [],
    }
