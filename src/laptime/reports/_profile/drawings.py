"""Drawings of a profile: parts of a step as bars and a ring, curves over the window. Colours are classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from laptime.kit.units import scale, show
from laptime.records.overview import Breakdown, Step
from laptime.records.tables import Memory
from laptime.reports._onefile import plain
from laptime.reports._profile.words import PARTS, time
from laptime.reports._svg import Scale, bottom_axis, drawing, el, left_axis, tick_texts
from laptime.reports._words import percent

_ORDER = ("kernel", "communication", "memcpy", "memset", "runtime", "dataloader", "cpu", "other")
"""Parts of a step from the bottom up: what the device does, then the host."""

STEPS = 120
"""Steps drawn; of more, evenly spaced ones."""

_WIDTH = 1000.0


class Part(NamedTuple):
    """A part of a whole: `name` is the class of its colour; nanoseconds or any other amount."""

    name: str
    words: str
    amount: float
    text: str
    share: float


def parts(amounts: dict[str, tuple[str, float]]) -> list[Part]:
    """Times in nanoseconds by colour, with their words, as parts of their sum; empty ones left out."""
    whole = sum(amount for _, amount in amounts.values()) or 1
    return [
        Part(name, word, amount, time(amount), amount / whole)
        for name, (word, amount) in amounts.items()
        if amount > 0
    ]


def breakdown(own: Breakdown) -> list[Part]:
    """The parts of a step."""
    return parts({name: (PARTS[name], getattr(own, f"{name}_ns")) for name in _ORDER})


def band(own: Sequence[Part], *, label: str, whole: float = 0.0, height: float = 22.0) -> Markup:
    """One horizontal bar of parts; `whole` is what its full length stands for, else their sum."""
    whole = whole or sum(part.amount for part in own) or 1.0
    made, x = [], 0.0
    for part in own:
        width = _WIDTH * part.amount / whole
        made.append(_rect(part, x=x, y=0.0, width=width, height=height))
        x += width
    return el(
        "svg",
        el("title", plain(label)),
        *made,
        viewBox=f"0 0 {_WIDTH:g} {height:g}",
        preserveAspectRatio="none",
        role="img",
        class_="band",
    )


def _rect(part: Part, *, x: float, y: float, width: float, height: float) -> Markup:
    title = el("title", f"{plain(part.words)}: {part.text} ({percent(part.share)})")
    return el("rect", title, x=x, y=y, width=width, height=height, class_=f"fill p-{part.name}")


def ring(own: Sequence[Part], *, centre: str, below: str) -> Markup:
    """A ring of parts, clockwise from the top."""
    made, done = [], 0.0
    for part in own:
        made.append(
            el(
                "circle",
                el("title", f"{part.words}: {part.text} ({percent(part.share)})"),
                cx=100,
                cy=100,
                r=76,
                pathLength="1000",
                stroke_dasharray=f"{max(1000 * part.share - 4, 0.8):.1f} 1000",
                stroke_dashoffset=f"{-1000 * done:.1f}",
                class_=f"ring p-{part.name}",
            )
        )
        done += part.share
    return el(
        "svg",
        el("title", "the mean step"),
        el("g", *made, transform="rotate(-90 100 100)"),
        el("text", centre, x=100, y=102, class_="middle centre"),
        el("text", below, x=100, y=122, class_="middle tick"),
        viewBox="0 0 200 200",
        role="img",
        class_="donut",
    )


def dial(share: float | None) -> Markup:
    """The sign of the verdict: how much of the step the limit takes."""
    if share is None:
        inside = el("circle", cx=50, cy=50, r=7, class_="dot")
    else:
        inside = el(
            "circle",
            cx=50,
            cy=50,
            r=42,
            pathLength="100",
            stroke_dasharray=f"{100 * min(max(share, 0), 1):.1f} 100",
            transform="rotate(-90 50 50)",
            class_="arc",
        ) + el("text", f"{100 * share:.0f} %", x=50, y=58, class_="middle")
    return el(
        "svg",
        el("circle", cx=50, cy=50, r=42, class_="rim"),
        inside,
        viewBox="0 0 100 100",
        class_="dial",
        aria_hidden="true",
    )


def steps(own: Sequence[Step]) -> Markup:
    """A bar for each step, parts from the bottom up."""
    drawn = own[:: -(-len(own) // STEPS)]
    width, height, left = 620.0, 270.0, 48.0
    longest = max((step.breakdown.total_ns for step in drawn), default=1) or 1
    factor, unit = scale(longest / 1e9, "s")
    y = Scale(0.0, longest / 1e9, height - 40, 22)
    ticks = y.ticks(4)
    pitch = (width - left - 10) / len(drawn)
    bar = min(pitch * 0.72, 52.0)
    bars, texts = [], []
    every = max(1, -(-len(drawn) // 16))
    for index, step in enumerate(drawn):
        middle = left + pitch * (index + 0.5)
        low = 0.0
        for part in breakdown(step.breakdown):
            top = low + part.amount / 1e9
            titled = part._replace(words=f"step {step.number}: {part.words}")
            bars.append(_rect(titled, x=middle - bar / 2, y=y(top), width=bar, height=y(low) - y(top)))
            low = top
        if index % every == 0:
            texts.append(el("text", str(step.number), x=middle, y=height - 22, class_="tick middle"))
    return drawing(
        width,
        height,
        el("text", unit, x=4, y=12, class_="tick"),
        left_axis(y, zip(ticks, tick_texts(ticks, factor), strict=True), x=left, right=width - 8),
        *bars,
        *texts,
        el("text", "step", x=(left + width) / 2, y=height - 4, class_="tick middle"),
        label="parts of each step",
    )


def curve(values: Sequence[float], steps: Sequence[Step], *, top: float, unit: str, label: str) -> Markup:
    """A curve in equal buckets over the window of all steps, with the steps' borders."""
    width, height, left = _WIDTH, 150.0, 48.0
    start, end = (steps[0].start_ns, steps[-1].end_ns) if steps else (0, 1)
    x = Scale(0.0, (end - start) / 1e9, left, width - 10)
    y = Scale(0.0, top or 1.0, height - 28, 12)
    ticks = y.ticks(3)
    shown = [f"{100 * t:.0f} %" for t in ticks] if unit == "%" else tick_texts(ticks, 1.0)
    each = (x.end - x.start) / max(1, len(values))
    path = f"M{x.start:.1f} {y(0):.1f}" + "".join(
        f"V{y(value):.1f}H{x.start + each * (index + 1):.1f}" for index, value in enumerate(values)
    )
    borders = [
        el("line", x1=at, x2=at, y1=12, y2=height - 28, class_="boundary")
        for at in (x((step.start_ns - start) / 1e9) for step in steps[1:])
    ]
    return drawing(
        width,
        height,
        left_axis(y, zip(ticks, shown, strict=True), x=left, right=x.end),
        el("path", d=f"{path}V{y(0):.1f}z", class_="area"),
        *(borders if len(borders) <= 40 else []),
        _time_axis(x, height - 28),
        label=label,
    )


def _time_axis(x: Scale, y: float) -> Markup:
    ticks = x.ticks(8)
    factor, unit = scale(x.high, "s")
    texts = tick_texts(ticks, factor)
    return bottom_axis(
        x,
        [
            (t, f"{text} {unit}" if i == 0 else text)
            for i, (t, text) in enumerate(zip(ticks, texts, strict=True))
        ],
        y=y,
    )


def memory(own: Memory) -> Markup:
    """Allocated bytes as an area, reserved ones as a line, the peak marked, the capacity where it is near."""
    width, height, left = _WIDTH, 220.0, 66.0
    points = own.curve
    top = max([point.allocated for point in points] + [point.reserved for point in points] + [1])
    near = own.capacity is not None and own.capacity < 2 * top
    limit = float(max(top, own.capacity or 0) if near else top)
    x = Scale(points[0].at_ns / 1e9, max(points[-1].at_ns, points[0].at_ns + 1) / 1e9, left, width - 10)
    y = Scale(0.0, limit * 1.06, height - 28, 14)
    factor, unit = scale(limit, "B")
    ticks = [t * factor for t in Scale(0.0, y.high / factor, 0, 1).ticks(4)]
    texts = [f"{text} {unit}" for text in tick_texts(ticks, factor)]
    made = [
        left_axis(y, zip(ticks, texts, strict=True), x=left, right=x.end),
        el("path", d=_path([(x(p.at_ns / 1e9), y(p.allocated)) for p in points], y(0)), class_="area"),
    ]
    if any(point.reserved >= 0 for point in points):
        spots = [(x(p.at_ns / 1e9), y(p.reserved)) for p in points if p.reserved >= 0]
        made.append(el("path", d=_path(spots, None), class_="reserved"))
    if near and own.capacity is not None:
        at = y(own.capacity)
        made.append(el("line", x1=left, x2=x.end, y1=at, y2=at, class_="limit"))
        made.append(el("text", f"capacity {show(own.capacity, 'B')}", x=left + 6, y=at + 14, class_="tick"))
    if own.peak is not None and own.peak_at_ns is not None:
        made.append(_peak(x(own.peak_at_ns / 1e9), y(own.peak), show(own.peak, "B"), x.end))
    return drawing(
        width, height, *made, _time_axis(x, height - 28), label=f"memory of {plain(own.device)} over time"
    )


def _peak(x: float, y: float, text: str, right: float) -> Markup:
    side = "end" if x > right - 160 else ""
    return el("circle", cx=x, cy=y, r=4, class_="summit") + el(
        "text", f"peak {text}", x=x + (-9 if side else 9), y=max(y - 6, 11), class_=f"value {side}"
    )


def _path(spots: list[tuple[float, float]], floor: float | None) -> str:
    """Steps from point to point; of the points in one pixel, only the first, lowest, highest and last."""
    kept: list[tuple[float, float]] = []
    for column in _columns(spots):
        heights = [y for _, y in column]
        wanted = {0, len(column) - 1, heights.index(min(heights)), heights.index(max(heights))}
        kept += [column[i] for i in sorted(wanted)]
    first = f"M{kept[0][0]:.1f} {kept[0][1]:.1f}"
    path = first + "".join(f"H{x:.1f}V{y:.1f}" for x, y in kept[1:])
    return path if floor is None else f"{path}V{floor:.1f}H{kept[0][0]:.1f}z"


def _columns(spots: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    found: list[list[tuple[float, float]]] = []
    for spot in spots:
        if found and int(found[-1][0][0]) == int(spot[0]):
            found[-1].append(spot)
        else:
            found.append([spot])
    return found
