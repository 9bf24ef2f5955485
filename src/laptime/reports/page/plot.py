"""Charts: two axes and a list of marks in the data's own units, drawn for any width.

Who draws a chart describes it once, as a `Plot`; where marks land, which labels have room and what the legend
says follows from the description. A mark is anything with `drawn(on)`: those here are shared by all charts.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from markupsafe import Markup

from laptime.reports._words import plain
from laptime.reports.page.svg import LETTER, LINE, SHAPES, Frame, Labels, Scale, drawing, el, frame

_NUMBERED = ("ring", "triangle", "diamond", "cross")
_COLOURS = 5
_MOST_BORDERS = 40
_WIDEST = 52.0  # pixels of a column
Point = tuple[float, float]
Interval = tuple[float, float] | None


class Style(NamedTuple):
    """How a series looks: a shape of `svg.SHAPES`, a colour of the page, a name for the legend."""

    shape: str
    colour: str
    name: str = ""


def pick_style(at: int, name: str = "") -> Style:
    """The style of one series of several; the square in `c5` is left to what is not numbered."""
    return Style(_NUMBERED[at % len(_NUMBERED)], f"c{at % _COLOURS}", name)


class Axis(NamedTuple):
    low: float
    high: float
    title: str = ""
    unit: tuple[float, str] = (1.0, "")  # the factor of the unit that labels are written in, and its name
    log: bool = False
    about: int = 0  # labels wanted; as many as have room if it is 0
    # the labels of a scale with room for so many; round values if it is None
    write: Callable[[Scale, int], Labels] | None = None

    @property
    def text(self) -> str:
        """`latency, ms, logarithmic`."""
        return ", ".join(filter(None, (self.title, self.unit[1], "logarithmic" if self.log else "")))

    def labels(self, scale: Scale, room: int) -> Labels:
        about = self.about or room
        return self.write(scale, about) if self.write else scale.labels(about, self.unit[0])


def decades(
    values: Sequence[float], room: float, *, title: str = "", unit: tuple[float, str] = (1.0, "")
) -> Axis:
    """A logarithmic axis around values, from a `room`th of the least to `room` times the largest."""
    return Axis(min(values) / room, max(values) * room, title, unit, log=True)


class Panel(NamedTuple):
    """Where marks are drawn: a frame with its two scales."""

    frame: Frame
    x: Scale
    y: Scale

    def points(self, points: Sequence[Point]) -> list[Point]:
        return [(self.x(x), self.y(y)) for x, y in points]


class Mark(Protocol):
    """Anything that a chart can show."""

    def draw(self, on: Panel) -> Markup:
        """It on the panel of a chart."""


class Line(NamedTuple):
    """A line from point to point, straight or in steps; filled down to the bottom if it is an area."""

    points: Sequence[Point]
    class_: str
    name: str = ""
    steps: bool = False
    area: bool = False

    def draw(self, on: Panel) -> Markup:
        """A path; of the steps within one pixel only the first, lowest, highest and last."""
        if len(self.points) < 2:
            return Markup("")
        places = on.points(self.points)
        if not self.steps:
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        else:
            (x, y), *rest = _corners(places)
            path = f"M{x:.1f} {y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in rest)
        closed = f"V{on.frame.bottom:.1f}H{places[0][0]:.1f}z" if self.area else ""
        return el("path", d=path + closed, class_=self.class_)


def _corners(places: Sequence[Point]) -> list[Point]:
    corners: list[Point] = []
    for _, group in itertools.groupby(places, key=lambda place: int(place[0])):
        column = list(group)
        heights = [y for _, y in column]
        ends = {0, len(column) - 1, heights.index(min(heights)), heights.index(max(heights))}
        corners += [column[at] for at in sorted(ends)]
    return corners


class Spot(NamedTuple):
    """A value: its interval as a line up and down, `title` where a mouse rests on it, `label` beside it.

    An interval that is open to one side reaches to the edge. A label is left out if it has no room."""

    x: float
    y: float
    style: Style
    title: str
    ends: Interval = None
    label: str = ""

    def draw(self, on: Panel) -> Markup:
        x, y = on.x(self.x), on.y(self.y)
        ends = [on.y(end) for end in self.ends or () if not math.isnan(end)]
        shape, colour, _ = self.style
        title, d = el("title", plain(self.title)), f"M{x:.1f} {y:.1f}{SHAPES[shape]}"
        mark = el("path", title, d=d, class_=f"spot {colour}")
        if not ends:
            return mark
        return el("line", x1=x, x2=x, y1=min(ends), y2=max(ends), class_=f"line {colour}") + mark


class Column(NamedTuple):
    """A bar from `low` to `high`, around a place on an axis that counts columns."""

    x: float
    low: float
    high: float
    class_: str
    title: str

    def draw(self, on: Panel) -> Markup:
        bottom, top, width = on.y(self.low), on.y(self.high), min(0.72 * (on.x(1.0) - on.x(0.0)), _WIDEST)
        place = {"x": on.x(self.x) - width / 2, "y": top, "width": width, "height": bottom - top}
        return el("rect", el("title", plain(self.title)), class_=self.class_, **place)


class Level(NamedTuple):
    """A horizontal line from one x to another, or through the whole chart, with its interval as a band."""

    y: float
    class_: str
    across: Interval = None
    ends: Interval = None

    def draw(self, on: Panel) -> Markup:
        across = self.across
        left, right = (on.x(across[0]), on.x(across[1])) if across else (on.frame.left, on.frame.right)
        line = el("line", x1=left, x2=right, y1=on.y(self.y), y2=on.y(self.y), class_=self.class_)
        if self.ends is None:
            return line
        bottom, top = (on.y(end) for end in self.ends)
        place = {"x": left, "y": top, "width": right - left, "height": max(1.0, bottom - top)}
        return el("rect", class_="ci", **place) + line


class Border(NamedTuple):
    """A vertical line through the chart, named above it."""

    x: float
    name: str = ""

    def draw(self, on: Panel) -> Markup:
        x, place = on.x(self.x), on.frame
        line = el("line", x1=x, x2=x, y1=place.top, y2=place.bottom, class_="boundary")
        name, y = plain(self.name), place.top - 6
        return line + el("text", name, x=x, y=y, class_="tick middle small") if name else line


class Note(NamedTuple):
    """Words at a place of the chart, moved by pixels; `end` in its class writes them to the left of it."""

    x: float
    y: float
    text: str
    class_: str = "tick"
    by: Point = (0.0, 0.0)

    def draw(self, on: Panel) -> Markup:
        x, y = on.x(self.x) + self.by[0], on.y(self.y) + self.by[1]
        return el("text", plain(self.text), x=x, y=y, class_=self.class_)


class Plot(NamedTuple):
    """A chart: a `Drawing`."""

    label: str  # says to a screen reader what is drawn
    x: Axis
    y: Axis
    marks: Sequence[Mark]  # in the order of drawing; spots lie on top of all else, the first of them on top
    height: float = 270
    # pixels between the frame and the edges, if they are not the usual ones
    margins: Mapping[str, float] = {}

    def panel(self, width: float) -> Panel:
        """Return where its marks are drawn."""
        place = frame(width, self.height, **self.margins)
        x, y = self.x, self.y
        return Panel(place, place.x(x.low, x.high, log=x.log), place.y(y.low, y.high, log=y.log))

    def parts(self, on: Panel) -> Iterator[Markup]:
        """The grid, the marks, and what is written at the bottom."""
        spots = [mark for mark in self.marks if isinstance(mark, Spot)]
        yield on.frame.left_axis(on.y, self.y.labels(on.y, on.frame.up), self.y.text)
        yield from (mark.draw(on) for mark in self.marks if not isinstance(mark, Spot))
        yield from (spot.draw(on) for spot in reversed(spots))
        yield from _labels(spots, on)
        yield on.frame.bottom_axis(on.x, self.x.labels(on.x, on.frame.across), self.x.text)

    def draw(self, width: float) -> Markup:
        return drawing(width, self.height, *self.parts(self.panel(width)), label=plain(self.label))

    def keys(self) -> Markup:
        """A legend of the series that have a name."""
        marks = [mark for mark in self.marks if isinstance(mark, Spot | Line)]
        styles = dict.fromkeys(_key(mark) for mark in marks)
        return legend([(shape, class_, name, None) for shape, class_, name in styles if name])

    def points(self) -> Any:
        """None: marks have titles, so the page's script needs no data of them."""
        return None


def _key(mark: Spot | Line) -> tuple[str, str, str]:
    if isinstance(mark, Line):
        return "dash", mark.class_, mark.name
    return mark.style.shape, f"spot {mark.style.colour}", mark.style.name


def borders(places: Sequence[float]) -> list[Border]:
    """A border at each place; none if they would hide what is between them."""
    return [Border(place) for place in places] if len(places) <= _MOST_BORDERS else []


def legend(items: Sequence[tuple[str, str, str, int | None]]) -> Markup:
    """A list of marks: the shape, class and name of each, and how many there are; nothing without any."""
    rows = []
    for shape, class_, name, number in items:
        mark = el("path", d=f"M8 8{SHAPES[shape]}", class_=class_)
        key = el("svg", mark, viewBox="0 0 16 16", class_="key", aria_hidden="true")
        counted = Markup(" ") + el("b", f"{number:,}") if number is not None else ""
        rows.append(el("li", key, el("span", plain(name)), counted))
    return el("ul", *rows, class_="legend") if rows else Markup("")


def _labels(spots: Sequence[Spot], on: Panel) -> Iterator[Markup]:
    """Names beside marks, to the right or to the left; if there is no room, the tooltip has to do."""
    places = [(on.x(spot.x), on.y(spot.y) + 4) for spot in spots]
    taken = [(x - 5, x + 5, y) for x, y in places]
    for spot, (x, y) in zip(spots, places, strict=True):
        text = plain(spot.label)
        width = LETTER * len(text)
        for left in (x + 8, x - 8 - width) if text else ():
            is_inside = on.frame.left < left and left + width < on.frame.width
            others = ((begin, end) for begin, end, other in taken if abs(y - other) < LINE)
            if is_inside and all(left + width < begin or left > end for begin, end in others):
                taken.append((left, left + width, y))
                yield el("text", text, x=left, y=y, class_="tick small")
                break
