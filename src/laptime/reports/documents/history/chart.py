"""The drawing of a history: every run with its interval, the levels between changes, and the changes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from laptime.kit.units import estimate, show, show_interval
from laptime.kit.units import scale as unit_of
from laptime.records.history import History, Point
from laptime.reports.page.axes import Labels
from laptime.reports.page.plot import Axis, Border, Level, Plot, Spot, Style

_RUN = Style("ring", "c0")


def chart(history: History, label: str) -> Plot:
    """Values over runs, oldest first; `label` says to a screen reader what is drawn."""
    points = history.points
    ends = [end for point in points for end in (point.value, *(point.ci95 or ())) if math.isfinite(end)]
    factor, unit = unit_of(max(ends), history.unit)
    middle = (min(ends) + max(ends)) / 2
    reach = max((max(ends) - min(ends)) * 0.56, 0.03 * middle)
    return Plot(
        label=label,
        x=Axis(-0.5, len(points) - 0.5, write=lambda _, most: _days(points, most)),
        y=Axis(middle - reach, middle + reach, unit=(factor, "per second" if unit == "/s" else unit)),
        marks=[
            *(Border(step.at - 0.5, f"{step.ratio:.2f}x") for step in history.steps),
            *_levels(history),
            *(_spot(at, point, history.unit) for at, point in enumerate(points)),
        ],
        height=250,
        margins={"bottom": 30},
    )


def _days(points: Sequence[Point], most: int) -> Labels:
    """Days under as many runs as have room for one."""
    every = max(1, math.ceil(len(points) / most))
    return [(at, points[at].started[:10]) for at in range(0, len(points), every)]


def _levels(history: History) -> Iterator[Level]:
    """The median between changes."""
    for begin, end in pairwise([0, *(step.at for step in history.steps), len(history.points)]):
        level = statistics.median(point.value for point in history.points[begin:end])
        yield Level(level, "median", across=(begin - 0.5, end - 0.5))


def _spot(at: int, point: Point, unit: str) -> Spot:
    shown = estimate(show(point.value, unit, point.ci95), show_interval(point.ci95, point.value, unit))
    return Spot(at, point.value, _RUN, f"{point.run} {point.commit[:10]}: {shown}", point.ci95)
