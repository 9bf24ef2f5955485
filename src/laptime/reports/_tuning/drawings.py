"""Drawings of a session: the ladder as stairs, a step before and after, curves of the loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from laptime.analysis import tuned
from laptime.kit.units import show
from laptime.records.tuning import Convergence, Rung, Tuning
from laptime.reports import _words
from laptime.reports._profile.drawings import Part, band
from laptime.reports._profile.words import PARTS
from laptime.reports._svg import Scale, bottom_axis, drawing, el, left_axis, tick_texts
from laptime.reports._tuning import words

_WIDTH, _HEIGHT = 1000.0, 20.0
_POINTS = 200

COLOURS = {
    "data": "phase-data",
    "transfer": "transfer",
    "forward": "phase-forward",
    "backward": "phase-backward",
    "optimizer": "phase-optimizer",
    **{name: name for name in PARTS if name != "other"},
    "other": "other",
}
_OTHERS = ("annotation", "python", "memset", "cpu")


class Stair(NamedTuple):
    """A row of the ladder's drawing: what, its bar, the number behind it, and how it is shown."""

    name: str
    bar: Markup
    number: str
    note: str
    kind: str


def stairs(tuning: Tuning) -> list[Stair]:
    """The baseline, every raced rung on its incumbent, and the whole measured afresh, on one scale.

    In samples per second; where nothing tells these, in times the baseline's speed.
    """
    start = _start(tuning)
    raced = [r for r in tuned.tried(tuning) if _sound(r.speedup) and tuning.goal == "throughput"]
    if not raced:
        return []
    levels, at = [], start
    for rung in raced:
        speedup = rung.speedup or 1.0
        own = at * speedup
        levels.append((rung, at, own))
        at = own if rung.kept and not rung.dropped else at
    whole = _whole(tuning, start)
    ends = [end for rung, low, own in levels for end in (own, *(low * e for e in _ends(rung.ci95)))]
    ends += [start] + ([whole[0], *whole[1]] if whole else [])
    scale = Scale(0.0, max(ends) * 1.02, 0.0, _WIDTH)
    found = [Stair("as it is", _bar(scale, [(0.0, start, "held")]), _number(start, tuning), "", "base")]
    found += [_stair(scale, rung, low, own, tuning) for rung, low, own in levels]
    if whole is not None:
        bar = _bar(scale, [(0.0, start, "held"), (start, whole[0], "won")], whole[1])
        found.append(Stair("measured afresh", bar, _number(whole[0], tuning), "", "whole"))
    return found


def _stair(scale: Scale, rung: Rung, low: float, own: float, tuning: Tuning) -> Stair:
    kept = rung.kept and not rung.dropped
    kind = "kept" if kept else "left"
    steps = [(0.0, min(low, own), "held"), (min(low, own), max(low, own), "won" if kept else "lost")]
    bar = _bar(scale, steps, [low * end for end in _ends(rung.ci95)])
    busy = f", device busy {_words.percent(rung.utilization)}" if rung.utilization is not None else ""
    note = f"{words.effect(rung.speedup, rung.ci95)} {rung.verdict}{busy}"
    return Stair(words.label(rung), bar, _number(own, tuning), note, kind)


def _start(tuning: Tuning) -> float:
    """Samples per second of the script as it is; 1 where nothing tells."""
    if tuning.baseline is not None and _sound(tuning.baseline.throughput):
        return tuning.baseline.throughput
    before = tuning.before
    if before is not None and _sound(before.step) and before.batch > 0:
        return before.batch / before.step
    return 1.0


def _whole(tuning: Tuning, start: float) -> tuple[float, list[float]] | None:
    own = tuning.speedup
    if own is None or not _sound(own.value):
        return None
    return start * own.value, [start * end for end in _ends(own.ci95)]


def _number(value: float, tuning: Tuning) -> str:
    return words.per_second(value) if _start(tuning) != 1.0 else words.ratio(value)


def _sound(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and 0 < value < 1e12


def _ends(ci95: tuple[float, float] | None) -> list[float]:
    return sorted(ci95) if ci95 is not None and all(map(_sound, ci95)) else []


def _bar(scale: Scale, steps: Iterable[tuple[float, float, str]], ends: Sequence[float] = ()) -> Markup:
    """Rectangles end to end, and a whisker for the interval of the last end."""
    made = [
        el("rect", x=scale(a), width=max(0.0, scale(b) - scale(a)), y=3, height=14, class_=class_)
        for a, b, class_ in steps
    ]
    if len(ends) == 2:
        low, high = (scale(end) for end in ends)
        made.append(el("rect", x=low, width=max(1.0, high - low), y=9, height=2, class_="whisker"))
        made += [el("rect", x=x - 1, width=2, y=5, height=10, class_="whisker") for x in (low, high)]
    return el(
        "svg",
        *made,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        preserveAspectRatio="none",
        aria_hidden="true",
        class_="stair",
    )


class Pair(NamedTuple):
    """A step before and after on one scale, and what the colours are."""

    bars: list[tuple[str, Markup, str]]
    legend: list[Part]


def before_and_after(first: dict[str, float], last: dict[str, float]) -> Pair:
    """Two bars of parts in seconds; the longer one has the whole width. Without a first there are none."""
    sides = [(name, _parts(own)) for name, own in (("before", first), ("after", last))]
    longest = max((sum(p.amount for p in own) for _, own in sides), default=0.0)
    if not sides[0][1] or longest <= 0:
        return Pair([], [])
    bars = [
        (
            name,
            band(own, label=f"a step {name}", whole=longest, height=26),
            show(sum(part.amount for part in own), "s"),
        )
        for name, own in sides
        if own
    ]
    legend = {part.name: part for _, own in reversed(sides) for part in own}
    return Pair(bars, [legend[part.name] for part in _parts({**last, **first}) if part.name in legend])


def _parts(own: dict[str, float]) -> list[Part]:
    """Parts with their colours, in the order of a step."""
    sound = {name: value for name, value in own.items() if _sound(value)}
    whole = sum(sound.values()) or 1.0
    order = {name: at for at, name in enumerate(COLOURS)}
    names = sorted(sound, key=lambda name: order.get(name, len(order)))
    strange = [name for name in names if name not in COLOURS]
    return [
        Part(
            COLOURS.get(name) or _OTHERS[strange.index(name) % len(_OTHERS)],
            words.part(name),
            sound[name],
            show(sound[name], "s"),
            sound[name] / whole,
        )
        for name in names
    ]


def losses(own: Convergence) -> Markup | None:
    """A line for each seed, baseline and final; None where no curve has two points."""
    sides = [("c5", own.baseline), ("c0", own.final)]
    lines = [(class_, _thinned(curve)) for class_, curves in sides for curve in curves]
    lines = [(class_, curve) for class_, curve in lines if len(curve) > 1]
    if not lines:
        return None
    values = [value for _, curve in lines for _, value in curve]
    width, height, left = 640.0, 240.0, 56.0
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    x = Scale(1.0, max(at for _, curve in lines for at, _ in curve), left, width - 12)
    y = Scale(low - margin, high + margin, height - 42, 16)
    ticks, below = y.ticks(5), x.ticks(6)
    paths = [
        el(
            "path",
            d="M" + "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in curve),
            class_=f"line thin {class_}",
        )
        for class_, curve in lines
    ]
    return drawing(
        width,
        height,
        left_axis(y, zip(ticks, tick_texts(ticks, 1.0), strict=True), x=left, right=width - 12),
        bottom_axis(x, [(t, f"{t:g}") for t in below], y=height - 42),
        el("text", "step", x=(left + width) / 2, y=height - 6, class_="tick middle"),
        *paths,
        label="the compared metric over steps, one line for each seed",
    )


def _thinned(curve: Sequence[float]) -> list[tuple[float, float]]:
    every = max(1, len(curve) // _POINTS)
    points = [(at + 1.0, value) for at, value in enumerate(curve)][::every]
    return [(at, value) for at, value in points if math.isfinite(value) and abs(value) < 1e12]
