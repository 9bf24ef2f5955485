"""Drawing without a library: elements and shapes as SVG text, scales with their ticks, and axes.

Colours come from the page's style. A drawing is made for a width: that of the page, of half of it, of a
phone. Lengths are pixels beside a text of 12 px; no two labels of an axis touch or say the same."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from laptime.reports._words import plain

SHAPES = {
    "dot": "h0",
    "dash": "m-7 0h14",
    "triangle": "m0-4l4 7h-8z",
    "cross": "m-3.5-3.5l7 7m0-7l-7 7",
    "diamond": "m0-4.5l4.5 4.5l-4.5 4.5l-4.5-4.5z",
    "square": "m-3.5-3.5h7v7h-7z",
    "disc": "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "ring": "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0",
}
BROAD, HALF, NARROW = 1000.0, 460.0, 380.0
LETTER, LINE = 6.8, 13.0  # a letter is as wide at most in the fonts of the page, on average; a line as high
Labels = Sequence[tuple[float, str]]
_SQUEEZED = 0.22
_FINER = 0.75  # share of the distance asked for that two ticks may be nearer


def el(name: str, *children: str | Markup, **attributes: str | float | None) -> Markup:
    """An element; text is escaped, `stroke_width` becomes `stroke-width`, None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(px(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")  # noqa: S704 (escaped)


def px(value: str | float) -> str:
    """A length, with a decimal if it is not whole."""
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def drawing(width: float, height: float, *children: Markup, label: str, class_: str = "chart") -> Markup:
    """A drawing that scales with the page and says to a screen reader what it shows."""
    return el(
        "svg",
        el("title", label),
        *children,
        viewBox=f"0 0 {px(width)} {px(height)}",
        role="img",
        class_=class_,
    )


def dots(points: Iterable[tuple[float, float]], shape: str) -> str:
    """One path with a mark at every point: far smaller than an element each."""
    return "".join(f"M{px(x)} {px(y)}{shape}" for x, y in points)


class Frame(NamedTuple):
    """A drawing of `width` by `height`, and where in it values are drawn."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @property
    def across(self) -> int:
        """Labels that the bottom axis has room for, about."""
        return max(2, int((self.right - self.left) / 90))

    @property
    def up(self) -> int:
        """Labels that the left axis has room for, about."""
        return max(2, int((self.bottom - self.top) / 45))

    def x(self, low: float, high: float, *, log: bool = False) -> "Scale":
        """Return pixels from the left."""
        return Scale(low, high, self.left, self.right, log=log)

    def y(self, low: float, high: float, *, log: bool = False) -> "Scale":
        """Return pixels from the top, the largest value highest."""
        return Scale(low, high, self.bottom, self.top, log=log)

    def left_axis(self, scale: "Scale", labels: Labels, title: str = "") -> Markup:
        """Horizontal grid lines with their numbers at the left, under the title."""
        heads = el("text", plain(title), x=4, y=12, class_="tick") if title else Markup("")
        shown = {value for value, _ in apart([(value, scale(value), LINE) for value, _ in labels])}
        return heads + Markup("").join(
            el("line", x1=self.left, x2=self.right, y1=scale(value), y2=scale(value), class_="grid")
            + (
                el("text", plain(text), x=self.left - 8, y=scale(value) + 4, class_="tick end")
                if value in shown
                else Markup("")
            )
            for value, text in labels
        )

    def bottom_axis(self, scale: "Scale", labels: Labels, title: str = "") -> Markup:
        """A line with numbers under it, and the title under them."""
        y = self.bottom
        line = el("line", x1=scale.start, x2=scale.end, y1=y, y2=y, class_="axis")
        widths = {value: len(text) * LETTER for value, text in labels}
        middles = {v: min(max(scale(v), w / 2), self.width - w / 2) for v, w in widths.items()}
        shown = {v for v, _ in apart([(v, middles[v], widths[v] + LETTER) for v, _ in labels])}
        marks = Markup("").join(
            el("line", x1=scale(value), x2=scale(value), y1=y, y2=y + 4, class_="axis")
            + el("text", plain(text), x=middles[value], y=y + 17, class_="tick middle")
            for value, text in labels
            if value in shown
        )
        place = (scale.start + scale.end) / 2
        return (
            line
            + marks
            + (el("text", plain(title), x=place, y=y + 36, class_="tick middle") if title else "")
        )


def frame(
    width: float, height: float, *, left: float = 58, right: float = 14, top: float = 26, bottom: float = 44
) -> Frame:
    """A frame by its margins."""
    return Frame(width, height, left, width - right, top, height - bottom)


def apart(boxes: Iterable[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """(value, middle) of the boxes (value, middle, extent) that do not touch the one shown before."""
    shown: list[tuple[float, float]] = []
    end: tuple[float, float] | None = None
    for value, middle, extent in boxes:
        if end is None or abs(middle - end[0]) >= (extent + end[1]) / 2:
            shown.append((value, middle))
            end = middle, extent
    return shown


class Scale(NamedTuple):
    """A scale from values to pixels: linear or logarithmic, and beyond `bend` squeezed into the rest."""

    # low, high: values at `start` and `end` (pixels)
    low: float
    high: float
    start: float
    end: float
    log: bool = False
    # values above it share the last `_SQUEEZED` of the length, logarithmically; None: none do
    bend: float | None = None

    def __call__(self, value: float) -> float:
        """The pixel of a value; values outside are drawn at the edge."""
        return self.start + self._share(min(max(value, self.low), self.high)) * (self.end - self.start)

    def _share(self, value: float) -> float:
        if self.bend is not None:
            if value <= self.bend:
                return (1 - _SQUEEZED) * _between(value, self.low, self.bend)
            return (
                1
                - _SQUEEZED
                + _SQUEEZED * _between(math.log(value), math.log(self.bend), math.log(self.high))
            )
        if self.log:
            return _between(math.log(value), math.log(self.low), math.log(self.high))
        return _between(value, self.low, self.high)

    def labels(self, about: int = 5, factor: float = 1.0) -> list[tuple[float, str]]:
        """Values that are round in a unit that is `factor` of the scale's, with their texts in it."""
        if self.log:  # over decades: each with its own digits
            return [(value, f"{value / factor:,.10g}") for value in self.ticks(about)]
        shown = self._replace(low=self.low / factor, high=self.high / factor).ticks(about)
        return [(value * factor, text) for value, text in zip(shown, tick_texts(shown, 1.0), strict=True)]

    def ticks(self, about: int = 5) -> list[float]:
        """Round values to write on an axis; above a bend only the largest value."""
        if self.log:
            return _log_ticks(self.low, self.high)
        top = self.high if self.bend is None else self.bend
        ticks = _round_ticks(self.low, top, about)
        return ticks if self.bend is None else [*ticks, self.high]


def _between(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _round_ticks(low: float, high: float, about: int) -> list[float]:
    rough = (high - low) / about
    if not 1e-300 < rough < math.inf:  # nothing to divide, or a file with absurd numbers
        return [low]
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= _FINER * rough)
    first = math.ceil(low / step - 1e-9)
    ticks = [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]
    return ticks if len(ticks) > 1 else _round_ticks(low, high, 2 * about)


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [m * 10.0**d for d in decades for m in steps if low * 0.999 <= m * 10.0**d <= high * 1.001]
        if len(ticks) >= 3:
            return ticks
    return ticks if len(ticks) > 1 else _round_ticks(low, high, 3)


def tick_texts(values: list[float], factor: float) -> list[str]:
    """Values over `factor`, with just the decimals that write them exactly."""
    scaled = [value / factor for value in values]
    step = min((b - a for a, b in itertools.pairwise(scaled) if b > a), default=abs(scaled[0]) or 1.0)
    for digits in range(7):
        texts = [f"{value:,.{digits}f}" for value in scaled]
        if all(abs(float(t.replace(",", "")) - v) < 0.01 * step for t, v in zip(texts, scaled, strict=True)):
            return texts
    finer = ([f"{value:.{digits}g}" for value in scaled] for digits in range(4, 18))
    return next(texts for texts in finer if len({*texts}) == len({*scaled}))
