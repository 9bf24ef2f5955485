"""Samples of one series as a drawing: each over time, their distribution at its side, on one axis."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
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
from laptime.reports.page.plot import Border, Level, Panel, legend
from laptime.reports.page.svg import BROAD, LETTER, LINE, Frame, Scale, apart, frame, tick_texts

_GAP, _WORDS = 26.0, 68.0  # between samples and distribution; for what is written at the right of it
_MOST_BOUNDARIES = 12
_THINNED = "bars reach from the smallest to the largest of equal slices; the numbers use all samples"
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


class Drawn(NamedTuple):
    """The samples on scales: every one with its kind, and which of them get a mark, at which pixels."""

    series: Series
    values: Floats
    at: Floats
    kinds: Places
    marked: Places
    places: list[tuple[float, float]]
    over_time: Panel  # where they are drawn over time
    side: Panel  # where their distribution is drawn

    @property
    def y(self) -> Scale:
        """The scale of both parts."""
        return self.over_time.y


@dataclass(eq=False)
class SampleChart:
    """The chart of a series: a `Drawing`."""

    _series: Series
    # of the case; the median is a line through both parts with its interval as a band, quantiles that the
    # samples support are marked beside the distribution
    _stats: dict[str, Stat]
    _: KW_ONLY
    most: int  # samples that are drawn, at most about
    beside: Sequence[Series] = ()  # what it is compared with: all of them have one axis

    def __post_init__(self) -> None:
        self._together = self.beside or [self._series]
        self._factor, self._unit = unit(self._together)
        self._on = cache(self._scale)

    def draw(self, width: float) -> Markup:
        """Samples over time, and their distribution."""
        on, spans = self._on(width), _spans(self._on(width))
        marks = [
            _marks(on, index)
            for index in reversed(range(len(KINDS)))
            if (on.kinds[on.marked] == index).any() and not (spans and index == _PLAIN)
        ]
        parts = [self._axes(on), _boundaries(on), self._median(on), spans, *marks, _histogram(on)]
        label = f"{len(on.values)} samples over time and their distribution"
        size = on.side.frame.width, on.side.frame.height
        return svg.drawing(*size, *parts, self._quantiles(on), label=label, class_="chart samples")

    def keys(self) -> Markup:
        """Draw the legend of the marks, and say what was left out of the drawing."""
        on = self._on(BROAD)
        numbers = [(kind, int((on.kinds == index).sum())) for index, kind in enumerate(KINDS)]
        items = [(kind.shape, f"mark {kind.name}", kind.words, n) for kind, n in reversed(numbers) if n]
        parts = []
        if len(on.marked) < len(on.values):
            parts.append(f"{len(on.marked):,} of {len(on.values):,} samples drawn: {_THINNED}")
        if on.y.bend is not None:
            bend = f"{_brief(on.y.bend / self._factor)} {self._unit}"
            parts.append(f"above {bend} the axis is squeezed up to the slowest sample")
        note = "; ".join(parts)
        return legend(items) + (svg.el("p", note, class_="quiet") if note else "")

    def points(self) -> dict[str, Any]:
        """Return the data of tooltips: words of kinds; pixels, seconds, latency, kind, process of a mark."""
        on = self._on(BROAD)
        series, marked, xs = on.series, on.marked, on.places
        process = np.asarray(series.process or [0] * len(on.values), dtype=int)
        return {
            "kinds": [kind.words for kind in KINDS],
            "x": [round(x, 1) for x, _ in xs],
            "y": [round(y, 1) for _, y in xs],
            "at": [round(float(value), 3) for value in on.at[marked]] if series.at else [],
            "shown": [show(float(f"{value:.4g}"), "s") for value in on.values[marked]],
            "kind": on.kinds[marked].tolist(),
            "process": process[marked].tolist() if series.process else [],
        }

    def _scale(self, width: float) -> Drawn:
        series, values = self._series, _sound(self._series)
        at = np.asarray(series.at or range(len(values)), dtype=float)
        kinds = kinds_of(series)
        side = frame(width, 300, left=0.76 * (width - _WORDS), right=_WORDS, top=14)
        over_time = frame(width, 300, right=width - side.left + _GAP, top=14)
        x = over_time.x(float(at.min()), max(float(at.max()), float(at.min()) + 1e-9))
        everything = np.concatenate([_sound(each) for each in self._together])
        used = np.concatenate([select(each).values for each in self._together])
        y = _value_scale(everything, used, over_time)
        marked = thin(values, kinds, int(self.most * width / BROAD))
        on = Panel(over_time, x, y)
        places = on.points([(float(at[i]), float(values[i])) for i in marked])
        return Drawn(series, values, at, kinds, marked, places, on, Panel(side, x, y))

    def _axes(self, on: Drawn) -> Markup:
        (place, x, y), side = on.over_time, on.side.frame
        ys = y.ticks(place.up)
        texts = tick_texts(ys, self._factor)
        if y.bend is not None:
            texts = [*tick_texts(ys[:-1], self._factor), _brief(ys[-1] / self._factor)]
        below = "seconds since the run started" if on.series.at else "sample"
        wide = place._replace(right=side.right)
        parts = [
            wide.left_axis(y, list(zip(ys, texts, strict=True))),
            place.bottom_axis(x, x.labels(place.across), below),
            svg.el("line", x1=side.left, x2=side.left, y1=side.top, y2=side.bottom, class_="axis"),
        ]
        if y.bend is not None:
            parts.append(Level(y.bend, "bend").draw(Panel(wide, x, y)))
        return Markup("").join(parts)

    def _stat(self, name: str) -> Stat | None:
        stat = self._stats.get(f"latency/{self._series.regime or ''}/{name}")
        return stat if stat is not None and stat.value is not None else None

    def _median(self, on: Drawn) -> Markup:
        median = self._stat("median")
        if median is None:
            return Markup("")
        place = on.over_time.frame._replace(right=on.side.frame.right)
        line = Level(median.value or 0.0, "median", ends=median.ci95)
        return line.draw(on.over_time._replace(frame=place))

    def _quantiles(self, on: Drawn) -> Markup:
        """The median in figures, and names of other quantiles if there is room beside it."""
        taken: list[float] = []
        marks, end = [], on.side.frame.right
        for name in ("median", "p95", "p5", "p99", "p90"):
            if (stat := self._stat(name)) is None:
                continue
            at, is_median = on.y(stat.value or 0.0), name == "median"
            if not is_median:
                marks.append(svg.el("line", x1=end - 10, x2=end, y1=at, y2=at, class_="quantile"))
            if all(abs(at - other) >= LINE for other in taken):
                taken.append(at)
                text, class_ = (show(stat.value, "s", stat.ci95), "value") if is_median else (name, "tick")
                marks.append(svg.el("text", text, x=end + 5, y=at + 4, class_=class_))
        return Markup("").join(marks)


def unit(together: Sequence[Series]) -> tuple[float, str]:
    """The unit of the axis of these series, with its factor."""
    return unit_of(float(np.median(np.concatenate([_sound(each) for each in together]))), "s")


def _sound(series: Series) -> Floats:
    """Times that an axis can hold."""
    values = np.asarray(series.samples, dtype=float)
    return np.where(np.isfinite(values) & (values > 0), values, 1e-12)


def kinds_of(series: Series) -> NDArray[np.intp]:
    """Index into KINDS of each sample."""
    bits = np.asarray(series.label or [0] * len(series.samples), dtype=int)
    kinds = np.full(len(bits), _PLAIN, dtype=np.intp)
    for index in reversed(range(_PLAIN)):
        kinds[(bits & KINDS[index].bits) != 0] = index
    return kinds


def thin(values: Floats, kinds: NDArray[np.intp], most: int) -> NDArray[np.intp]:
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


def _marks(on: Drawn, kind: int) -> Markup:
    spots = itertools.compress(on.places, on.kinds[on.marked] == kind)
    return svg.el("path", d=svg.dots(spots, svg.SHAPES[KINDS[kind].shape]), class_=f"mark {KINDS[kind].name}")


def _spans(on: Drawn) -> Markup:
    """Plain samples that were thinned: a bar from the smallest to the largest of each slice."""
    plain = on.kinds[on.marked] == _PLAIN
    if int(plain.sum()) == int((on.kinds == _PLAIN).sum()) or int(plain.sum()) < 2:
        return Markup("")
    spots = list(itertools.compress(on.places, plain))
    bars = (f"M{x:.1f} {y:.1f}V{end:.1f}" for (x, y), (_, end) in zip(spots[::2], spots[1::2], strict=False))
    return svg.el("path", d="".join(bars), class_="mark spans")


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


def _brief(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _boundaries(on: Drawn) -> Markup:
    """A line where the samples of another process begin; none when they alternate too often."""
    process, at, x = on.series.process, on.at, on.over_time.x
    changes = [i for i in range(1, len(process)) if process[i] != process[i - 1]]
    if not 0 < len(changes) <= _MOST_BOUNDARIES:
        return Markup("")
    middles = [(float(at[i]) + float(at[i - 1])) / 2 for i in changes]
    names = dict(zip(middles, (f"process {process[i] + 1}" for i in changes), strict=True))
    wide = {middle: len(name) * LETTER for middle, name in names.items()}
    named = {middle for middle, _ in apart((at, x(at) + 5 + wide[at] / 2, wide[at]) for at in names)}
    bottom = on.over_time.frame.bottom - 6
    return Markup("").join(
        Border(middle).draw(on.over_time)
        + (svg.el("text", name, x=x(middle) + 5, y=bottom, class_="tick small") if middle in named else "")
        for middle, name in names.items()
    )


def _histogram(on: Drawn) -> Markup:
    """Bars of equal height on the drawing's own axis: what a median uses, then what it does not."""
    heights = np.asarray([on.y(float(value)) for value in on.values])
    bins = int(min(44, max(10, 2 * len(heights) ** 0.5)))
    place = on.side.frame
    edges = np.linspace(place.top, place.bottom, bins + 1)
    used = on.kinds >= next(i for i, kind in enumerate(KINDS) if kind.name == "garbage")
    plain, _ = np.histogram(heights[used], edges)
    apart, _ = np.histogram(heights[~used], edges)
    longest = max(1, int((plain + apart).max()))
    thick = (place.bottom - place.top) / bins
    x = Scale(0, longest, place.left, place.right - 14)
    parts = [place.bottom_axis(x, [(0, "0"), (longest, f"{longest:,}")], "samples")]
    for index in range(bins):
        left, top = place.left, float(edges[index]) + 0.5
        for number, name in ((int(plain[index]), "used"), (int(apart[index]), "apart")):
            if number:
                bar = {"x": left, "y": top, "width": max(x(number) - place.left, 1.0), "height": thick - 1}
                parts.append(svg.el("rect", **bar, class_=f"bar {name}"))
                left += bar["width"]
    return Markup("").join(parts)
