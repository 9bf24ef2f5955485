"""The drawing of a history: every run with its interval, the levels between changes, and the changes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from laptime.kit.units import estimate, show, show_interval
from laptime.kit.units import scale as unit_of
from laptime.records.history import History, Point, Step
from laptime.reports import _words as words
from laptime.reports.page.axes import Frame, Scale, frame
from laptime.reports.page.svg import drawing, el, spot


def chart(history: History, label: str, width: float) -> Markup:
    """Values over runs, oldest first; `label` says to a screen reader what is drawn."""
    points = history.points
    ends = [end for point in points for end in (point.value, *_finite(point))]
    factor, unit = unit_of(max(ends), history.unit)
    middle = (min(ends) + max(ends)) / 2
    reach = max((max(ends) - min(ends)) * 0.56, 0.03 * middle)
    place = frame(width, 250, bottom=30)
    x, y = place.x(-0.5, len(points) - 0.5), place.y(middle - reach, middle + reach)
    parts = [
        place.left_axis(y, y.labels(place.up, factor), "per second" if unit == "/s" else unit),
        place.bottom_axis(x, _labels(points, place.across)),
        *(_boundary(step, x, place) for step in history.steps),
        *_levels(history, x, y),
        *(_spot(at, point, history.unit, x, y) for at, point in enumerate(points)),
    ]
    return drawing(width, place.height, *parts, label=words.printable(label))


def _finite(point: Point) -> list[float]:
    return [end for end in point.ci95 or () if math.isfinite(end)]


def _labels(points: Sequence[Point], most: int) -> list[tuple[float, str]]:
    """Days under as many runs as have room for one."""
    every = max(1, math.ceil(len(points) / most))
    return [(at, words.printable(points[at].started[:10])) for at in range(0, len(points), every)]


def _boundary(step: Step, x: Scale, place: Frame) -> Markup:
    at = x(step.at - 0.5)
    return el("line", x1=at, x2=at, y1=place.top, y2=place.bottom, class_="boundary") + el(
        "text", f"{step.ratio:.2f}x", x=at, y=place.top - 6, class_="tick middle small"
    )


def _levels(history: History, x: Scale, y: Scale) -> list[Markup]:
    """The median between changes."""
    lines = []
    for begin, end in pairwise([0, *(step.at for step in history.steps), len(history.points)]):
        level = y(statistics.median(point.value for point in history.points[begin:end]))
        lines.append(el("line", x1=x(begin - 0.5), x2=x(end - 0.5), y1=level, y2=level, class_="median"))
    return lines


def _spot(at: int, point: Point, unit: str, x: Scale, y: Scale) -> Markup:
    text = f"{words.printable(point.run)} {words.printable(point.commit[:10])}: "
    text += estimate(show(point.value, unit, point.ci95), show_interval(point.ci95, point.value, unit))
    ends = [y(end) for end in _finite(point)]
    bar = [el("line", x1=x(at), x2=x(at), y1=min(ends), y2=max(ends), class_="line c0")] if ends else []
    return el("g", *bar, spot(x(at), y(point.value), "ring", "spot c0", text))
