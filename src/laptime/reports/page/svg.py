"""Drawing without a library: elements, scales and axes as SVG text. Colours come from the page's style."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape


def el(name: str, *children: str | Markup, **attributes: str | float | None) -> Markup:
    """An element; text is escaped, `stroke_width` becomes `stroke-width`, None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")  # noqa: S704 (escaped)


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def drawing(width: float, height: float, *children: Markup, label: str, class_: str = "chart") -> Markup:
    """A drawing that scales with the page and says to a screen reader what it shows."""
    return el(
        "svg",
        el("title", label),
        *children,
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        role="img",
        class_=class_,
    )


class Scale(NamedTuple):
    """From values to pixels: linear or logarithmic, and beyond `bend` squeezed into what is left.

    Attributes:
        low, high: values at `start` and `end` (pixels).
        bend: values above it share the last `_SQUEEZED` of the length, logarithmically; None: none do.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False
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
        """Round values with their texts in a unit that is `factor` of the scale's."""
        ticks = self.ticks(about)
        return list(zip(ticks, tick_texts(ticks, factor), strict=True))

    def ticks(self, about: int = 5) -> list[float]:
        """Round values to write on an axis; above a bend only the largest value."""
        if self.log:
            return _log_ticks(self.low, self.high)
        top = self.high if self.bend is None else self.bend
        ticks = _round_ticks(self.low, top, about)
        return ticks if self.bend is None else [*ticks, self.high]


_SQUEEZED = 0.22


def _between(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _round_ticks(low: float, high: float, about: int) -> list[float]:
    rough = (high - low) / about
    if not 1e-300 < rough < math.inf:  # nothing to divide, or a file with absurd numbers
        return [low]
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [m * 10.0**d for d in decades for m in steps if low * 0.999 <= m * 10.0**d <= high * 1.001]
        if len(ticks) >= 3:
            return ticks
    return ticks or [low, high]


def tick_texts(values: list[float], factor: float) -> list[str]:
    """Values over `factor`, with just the decimals that write them exactly."""
    scaled = [value / factor for value in values]
    step = min((b - a for a, b in itertools.pairwise(scaled) if b > a), default=abs(scaled[0]) or 1.0)
    for digits in range(7):
        texts = [f"{value:,.{digits}f}" for value in scaled]
        if all(abs(float(t.replace(",", "")) - v) < 0.01 * step for t, v in zip(texts, scaled, strict=True)):
            return texts
    return [f"{value:.4g}" for value in scaled]


def left_axis(scale: Scale, texts: Iterable[tuple[float, str]], *, x: float, right: float) -> Markup:
    """Horizontal grid lines with their numbers at the left."""
    return Markup("").join(
        el("line", x1=x, x2=right, y1=scale(value), y2=scale(value), class_="grid")
        + el("text", text, x=x - 8, y=scale(value) + 4, class_="tick end")
        for value, text in texts
    )


def bottom_axis(scale: Scale, texts: Iterable[tuple[float, str]], *, y: float) -> Markup:
    """Numbers under a line."""
    line = el("line", x1=scale.start, x2=scale.end, y1=y, y2=y, class_="axis")
    return line + Markup("").join(
        el("line", x1=scale(value), x2=scale(value), y1=y, y2=y + 4, class_="axis")
        + el("text", text, x=scale(value), y=y + 17, class_="tick middle")
        for value, text in texts
    )


def line(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """Straight lines from point to point."""
    return el("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_=class_)


def spot(x: float, y: float, shape: str, class_: str, title: str) -> Markup:
    """One mark, and what is told where a mouse rests on it."""
    return el("path", el("title", title), d=f"M{x:.1f} {y:.1f}{SHAPES[shape]}", class_=class_)


def legend(items: Iterable[tuple[str, str, Sequence[str | Markup]]]) -> Markup:
    """A list of marks: the shape and class of each, and what stands beside it."""
    rows = []
    for shape, class_, texts in items:
        mark = el("path", d=f"M8 8{SHAPES[shape]}", class_=class_)
        key = el("svg", mark, viewBox="0 0 16 16", class_="key", aria_hidden="true")
        rows.append(el("li", key, *texts))
    return el("ul", *rows, class_="legend")


def dots(points: Iterable[tuple[float, float]], shape: str) -> str:
    """One path with a mark at every point: far smaller than an element each."""
    return "".join(f"M{_number(x)} {_number(y)}{shape}" for x, y in points)


SHAPES = {
    "dot": "h0",
    "triangle": "m0-4l4 7h-8z",
    "cross": "m-3.5-3.5l7 7m0-7l-7 7",
    "diamond": "m0-4.5l4.5 4.5l-4.5 4.5l-4.5-4.5z",
    "square": "m-3.5-3.5h7v7h-7z",
    "ring": "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0",
}
