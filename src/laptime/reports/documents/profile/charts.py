"""Drawings of a profile: the parts of each step, the device and its memory over time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from markupsafe import Markup

from laptime.kit.units import scale, show
from laptime.records.overview import Step
from laptime.records.tables import Memory
from laptime.reports._words import plain
from laptime.reports.documents.profile import words
from laptime.reports.page.axes import Frame, Scale, frame
from laptime.reports.page.svg import drawing, el

STEPS = 120
"""Steps drawn; of more, evenly spaced ones."""


def steps(steps: Sequence[Step], width: float) -> Markup:
    """A bar for each step, its parts from the bottom up."""
    drawn = steps[:: -(-len(steps) // STEPS)]
    place = frame(width, 270, left=48, right=8, top=24)
    longest = max((step.breakdown.total_ns for step in drawn), default=1) or 1
    factor, unit = scale(longest / 1e9, "s")
    x, y = place.x(-0.5, len(drawn) - 0.5), place.y(0.0, longest)
    pitch = x(1.0) - x(0.0) if len(drawn) > 1 else x.end - x.start
    marks = [bar for at, step in enumerate(drawn) for bar in _stack(step, y, x(at), min(pitch * 0.72, 52.0))]
    labelled = max(1, -(-len(drawn) // 16))
    numbers = [(float(at), str(drawn[at].number)) for at in range(0, len(drawn), labelled)]
    return drawing(
        width,
        place.height,
        place.left_axis(y, y.labels(place.up, 1e9 * factor), unit),
        *marks,
        place.bottom_axis(x, numbers, "step"),
        label="parts of each step",
    )


def _stack(step: Step, y: Scale, middle: float, width: float) -> list[Markup]:
    bars, low, whole = [], 0, step.breakdown.total_ns
    for part, name in words.PARTS.items():
        if ns := getattr(step.breakdown, f"{part}_ns"):
            text = f"step {step.number}: {name}: {words.time(ns)} ({words.share(ns, whole)})"
            top, bottom, x = y(low + ns), y(low), middle - width / 2
            place = {"x": x, "y": top, "width": width, "height": bottom - top}
            bars.append(el("rect", el("title", text), class_=f"fill p-{part}", **place))
            low += ns
    return bars


def use(
    values: Sequence[float], steps: Sequence[Step], width: float, *, label: str, top: float = 1.0
) -> Markup:
    """A curve in equal buckets over the window of all steps, with their borders; up to 1 it is in percent."""
    place = frame(width, 150, left=48, right=10, top=12, bottom=28)
    start, end = (steps[0].start_ns, steps[-1].end_ns) if steps else (0, 1)
    x, y = place.x(0.0, (end - start) / 1e9), place.y(0.0, top or 1.0)
    labels = [(at, f"{100 * at:.0f} %") for at in y.ticks(3)] if top == 1.0 else y.labels(3)
    bucket = (x.end - x.start) / max(1, len(values))
    path = f"M{x.start:.1f} {y(0):.1f}" + "".join(
        f"V{y(value):.1f}H{x.start + bucket * (index + 1):.1f}" for index, value in enumerate(values)
    )
    borders = [
        el("line", x1=at, x2=at, y1=place.top, y2=place.bottom, class_="boundary")
        for at in (x((step.start_ns - start) / 1e9) for step in steps[1:])
    ]
    return drawing(
        width,
        place.height,
        place.left_axis(y, labels),
        el("path", d=f"{path}V{y(0):.1f}z", class_="area"),
        *(borders if len(borders) <= 40 else []),
        _time_axis(x, place),
        label=label,
    )


def _time_axis(x: Scale, place: Frame) -> Markup:
    factor, unit = scale(x.high, "s")
    (at, first), *others = x.labels(place.across, factor)
    return place.bottom_axis(x, [(at, f"{first} {unit}"), *others])


def memory(memory: Memory, width: float) -> Markup:
    """Allocated bytes as an area, reserved ones as a line, the peak marked, the capacity where it is near."""
    place, points = frame(width, 220, left=66, right=10, top=14, bottom=28), memory.curve
    top = max(1, *(max(point.allocated, point.reserved) for point in points))
    capacity = memory.capacity if memory.capacity is not None and memory.capacity < 2 * top else 0
    limit = float(max(top, capacity))
    x = place.x(points[0].at_ns / 1e9, max(points[-1].at_ns, points[0].at_ns + 1) / 1e9)
    y = place.y(0.0, limit * 1.06)
    factor, unit = scale(limit, "B")
    labels = [(at * factor, f"{text} {unit}") for at, text in place.y(0.0, y.high / factor).labels(4)]
    allocated = [(x(point.at_ns / 1e9), y(point.allocated)) for point in points]
    reserved = [(x(point.at_ns / 1e9), y(point.reserved)) for point in points if point.reserved >= 0]
    marks = [el("path", d=_path(allocated) + f"V{y(0):.1f}H{allocated[0][0]:.1f}z", class_="area")]
    if reserved:
        marks.append(el("path", d=_path(reserved), class_="reserved"))
    if capacity:
        text = f"capacity {show(capacity, 'B')}"
        marks.append(el("line", x1=x.start, x2=x.end, y1=y(capacity), y2=y(capacity), class_="limit"))
        marks.append(el("text", text, x=x.start + 6, y=y(capacity) + 14, class_="tick"))
    if memory.peak is not None and memory.peak_at_ns is not None:
        marks.append(_peak(x(memory.peak_at_ns / 1e9), y(memory.peak), show(memory.peak, "B"), x.end))
    return drawing(
        width,
        place.height,
        place.left_axis(y, labels),
        *marks,
        _time_axis(x, place),
        label=f"memory of {plain(memory.device)} over time",
    )


def _peak(x: float, y: float, text: str, right: float) -> Markup:
    side = "end" if x > right - 160 else ""
    return el("circle", cx=x, cy=y, r=4, class_="summit") + el(
        "text", f"peak {text}", x=x + (-9 if side else 9), y=max(y - 6, 11), class_=f"value {side}"
    )


def _path(points: list[tuple[float, float]]) -> str:
    """Steps from point to point; of the points in one pixel only the first, lowest, highest and last."""
    corners: list[tuple[float, float]] = []
    for _, group in itertools.groupby(points, key=lambda point: int(point[0])):
        column = list(group)
        heights = [y for _, y in column]
        ends = {0, len(column) - 1, heights.index(min(heights)), heights.index(max(heights))}
        corners += [column[index] for index in sorted(ends)]
    return f"M{corners[0][0]:.1f} {corners[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in corners[1:])
