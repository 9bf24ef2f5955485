"""Drawings of a profile: the parts of each step, the device and its memory over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laptime.kit.units import scale, show
from laptime.records.overview import Step
from laptime.records.tables import Memory
from laptime.reports.documents.profile import words
from laptime.reports.page.axes import Labels, Scale
from laptime.reports.page.plot import Axis, Column, Level, Line, Mark, Note, Plot, Spot, Style, borders

STEPS = 120
"""Steps drawn; of more, evenly spaced ones."""
_LABELS = 16
_SUMMIT = Style("disc", "summit")


def steps(steps: Sequence[Step]) -> Plot:
    """A bar for each step, its parts from the bottom up."""
    drawn = steps[:: -(-len(steps) // STEPS)]
    longest = (max((step.breakdown.total_ns for step in drawn), default=1) or 1) / 1e9
    every = max(1, -(-len(drawn) // _LABELS))
    numbers = [(float(at), str(drawn[at].number)) for at in range(0, len(drawn), every)]
    return Plot(
        label="parts of each step",
        x=Axis(-0.5, len(drawn) - 0.5, "step", write=lambda *_: numbers),
        y=Axis(0.0, longest, unit=scale(longest, "s")),
        marks=[bar for at, step in enumerate(drawn) for bar in _stack(step, at)],
        margins={"left": 48, "right": 8, "top": 24},
    )


def _stack(step: Step, at: int) -> Iterator[Column]:
    low, whole = 0, step.breakdown.total_ns
    for part, name in words.PARTS.items():
        if ns := getattr(step.breakdown, f"{part}_ns"):
            text = f"step {step.number}: {name}: {words.time(ns)} ({words.share(ns, whole)})"
            yield Column(at, low / 1e9, (low + ns) / 1e9, f"fill p-{part}", text)
            low += ns


def use(values: Sequence[float], steps: Sequence[Step], *, label: str, top: float = 1.0) -> Plot:
    """A curve in equal buckets over the window of all steps, with their borders; up to 1 it is in percent."""
    start, end = (steps[0].start_ns, steps[-1].end_ns) if steps else (0, 1)
    seconds = (end - start) / 1e9
    edges = [seconds * at / max(1, len(values)) for at in range(len(values) + 1)]
    # The height of a bucket begins at its left edge: the curve comes up from zero, and goes down to it.
    curve = Line([(0.0, 0.0), *zip(edges, [*values, 0.0], strict=True)], "area", steps=True, area=True)
    return Plot(
        label=label,
        x=_over_time(0.0, seconds),
        y=Axis(0.0, top or 1.0, about=3, write=_percents if top == 1.0 else None),
        marks=[curve, *borders([(step.start_ns - start) / 1e9 for step in steps[1:]])],
        height=150,
        margins={"left": 48, "right": 10, "top": 12, "bottom": 28},
    )


def _percents(y: Scale, about: int) -> Labels:
    return [(at, f"{100 * at:.0f} %") for at in y.ticks(about)]


def _over_time(low: float, high: float) -> Axis:
    """Seconds, whose unit stands with the first."""
    factor, unit = scale(high, "s")

    def write(x: Scale, about: int) -> Labels:
        (at, first), *others = x.labels(about, factor)
        return [(at, f"{first} {unit}"), *others]

    return Axis(low, high, write=write)


def memory(memory: Memory) -> Plot:
    """Allocated bytes as an area, reserved ones as a line, the peak marked, the capacity where it is near."""
    points = memory.curve
    top = max(1, *(max(point.allocated, point.reserved) for point in points))
    capacity = memory.capacity if memory.capacity is not None and memory.capacity < 2 * top else 0
    limit = float(max(top, capacity))
    factor, unit = scale(limit, "B")
    x = _over_time(points[0].at_ns / 1e9, max(points[-1].at_ns, points[0].at_ns + 1) / 1e9)
    allocated = [(point.at_ns / 1e9, point.allocated) for point in points]
    reserved = [(point.at_ns / 1e9, point.reserved) for point in points if point.reserved >= 0]
    marks: list[Mark] = [Line(allocated, "area", steps=True, area=True)]
    marks += [Line(reserved, "reserved", steps=True)] if reserved else []
    if capacity:
        text = f"capacity {show(capacity, 'B')}"
        marks += [Level(capacity, "limit"), Note(x.low, capacity, text, by=(6, 14))]
    if memory.peak is not None and memory.peak_at_ns is not None:
        at, text = memory.peak_at_ns / 1e9, f"peak {show(memory.peak, 'B')}"
        side, by = ("value end", -9) if at > (x.low + x.high) / 2 else ("value", 9)
        marks += [Spot(at, memory.peak, _SUMMIT, text), Note(at, memory.peak, text, side, by=(by, -6))]
    return Plot(
        label=f"memory of {memory.device} over time",
        x=x,
        y=Axis(0.0, limit * 1.06, about=4, write=lambda y, about: _sizes(y.labels(about, factor), unit)),
        marks=marks,
        height=220,
        margins={"left": 66, "right": 10, "top": 14, "bottom": 28},
    )


def _sizes(labels: Labels, unit: str) -> Labels:
    return [(at, f"{text} {unit}") for at, text in labels]
