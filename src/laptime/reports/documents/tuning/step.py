"""What bounds a step of the script, and where its time goes before and after the changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from laptime.kit.units import show
from laptime.records.tuning import Diagnosis, Suspect, Tuning
from laptime.reports import _words
from laptime.reports.document import Bar, Bars, Cell, Column, Facts, Folded, Panels, Row, Section, Table
from laptime.reports.documents.profile.words import PARTS as TRACED

PARTS = {
    "data": "waiting for data",
    "transfer": "copy to the device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "other",
}
COLOURS = {
    "data": "phase-data",
    "transfer": "transfer",
    "forward": "phase-forward",
    "backward": "phase-backward",
    "optimizer": "phase-optimizer",
    **{name: name for name in TRACED if name != "other"},
    "other": "other",
}
_UNKNOWN_COLOURS = ("annotation", "python", "memset", "cpu")
_MOST_SYNCS = 3


def section(tuning: Tuning) -> Section:
    """The bound in words, the parts of the step as bars and as numbers."""
    before, after = (side.shares if side else {} for side in (tuning.before, tuning.after))
    is_traced = tuning.breakdown_before != before  # without time for a trace, the diagnosis stands in
    traced = (tuning.breakdown_before, tuning.breakdown_after) if is_traced else ({}, {})
    bars = [
        bands(before, after, "By leaving parts out", "shares of a step without a profiler"),
        bands(*traced, "By a trace", "shares of a profiled step"),
    ]
    return Section(
        id="bound",
        title="What bounds the step",
        blocks=[
            Facts(rows=bounds(tuning)),
            Panels(blocks=[each for each in bars if each.rows], detail="page"),
            Folded(title="The parts as numbers", blocks=[parts(tuning)]),
        ],
    )


def bounds(tuning: Tuning) -> list[tuple[str, str]]:
    """What bounds the step before and after, what could save time, and where the script waits."""
    before, after = tuning.before, tuning.after
    rows = [(when, _bound(side)) for when, side in (("before", before), ("after", after)) if side]
    if before is None:
        return rows
    if before.suspects:
        rows.append(("suspects", "; ".join(_suspect(suspect, before.step) for suspect in before.suspects)))
    for sync in before.syncs[:_MOST_SYNCS]:
        what, place = (sync.get(key, "") for key in ("what", "where"))
        times = sync.get("count")
        often = f", {times:g} a step" if isinstance(times, int | float) else ""
        rows.append(("waits", f"{what} at {place}{often}"))
    notes = dict.fromkeys([*before.notes, *(after.notes if after else [])])
    return rows + [("note", note) for note in notes]


def _suspect(suspect: Suspect, step: float) -> str:
    share = f", {_words.percent(suspect.saves / step)}" if step > 0 else ""
    text = f"{suspect.label} could save {show(suspect.saves, 's')} of a step{share}"
    return f"{text} (only ever suggested)" if suspect.suggests else text


def _bound(diagnosis: Diagnosis) -> str:
    text = f"{diagnosis.bound or 'unknown'}: {diagnosis.sentence}".removesuffix(": ")
    if (step := show(diagnosis.step, "s")) not in text:
        text += f"; step {step}"
    if diagnosis.utilization is not None:
        text += f", device busy {_words.percent(diagnosis.utilization)}"
    return text


def parts(tuning: Tuning) -> Table:
    """Seconds and shares of the parts of a step, in its order; no rows where nothing was diagnosed."""
    sides = [side for side in (tuning.before, tuning.after) if side] if tuning.before else []
    names = {name: None for side in sides for name, seconds in side.shares.items() if seconds}
    columns = [Column(title="part of a step", kind="text")]
    for title, share in (("before", "share"), ("after", "share after"))[: len(sides)]:
        columns += [Column(title=title, kind="number"), Column(title=share, kind="share", bar=True)]
    rows = [
        Row(cells=[part(name), *(cell for side in sides for cell in _cells(side, name))])
        for name in _ordered(names)
    ]
    return Table(id="parts", columns=columns, rows=rows)


def _cells(diagnosis: Diagnosis, name: str) -> list[Cell | float]:
    seconds = diagnosis.shares.get(name, 0.0)
    share = seconds / diagnosis.step if diagnosis.step > 0 else 0.0
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    return [Cell(text=show(seconds, "s"), value=seconds), share]


def bands(before: dict[str, float], after: dict[str, float], title: str, note: str) -> Bars:
    """A bar of parts for the step before and one for the step after; none without a step before."""
    sides = [(name, _sound(side)) for name, side in (("before", before), ("after", after))]
    rows = [
        Bar(name=name, value=sum(side.values()), text=show(sum(side.values()), "s"), parts=_coloured(side))
        for name, side in sides
        if side and sides[0][1]
    ]
    colours = {piece.name: piece.kind for row in rows for piece in row.parts}
    legend = [Bar(name=name, kind=kind) for name, kind in colours.items()]
    return Bars(title=title, note=note, rows=rows, legend=legend)


def _coloured(side: dict[str, float]) -> list[Bar]:
    unknown, whole = itertools.cycle(_UNKNOWN_COLOURS), sum(side.values())
    return [
        Bar(
            name=part(name),
            value=side[name],
            text=show(side[name], "s"),
            share=side[name] / whole,
            kind=COLOURS.get(name) or next(unknown),
        )
        for name in _ordered(side)
    ]


def _sound(seconds: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in seconds.items() if math.isfinite(value) and 0 < value < 1e12}


def _ordered(names: Iterable[str]) -> list[str]:
    order = {name: at for at, name in enumerate(COLOURS)}
    return sorted(names, key=lambda name: order.get(name, len(order)))


def part(name: str) -> str:
    """A part of a step in words."""
    return PARTS.get(name) or TRACED.get(name) or name
