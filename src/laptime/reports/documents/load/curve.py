"""The wait of a request at each rate: the curve, and its knee, where more load buys more than waiting."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from laptime.analysis.knee import find_load_knee, load_of
from laptime.analysis.knee import knee as knee_among
from laptime.analysis.load import LevelStats
from laptime.kit.text import count
from laptime.kit.units import scale as unit_of
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.reports.documents.load.levels import LevelRow, label
from laptime.reports.page.plot import Axis, Line, Plot, Spot, Style, decades

_LINES = (
    ("median", 0.5, Style("ring", "c0", "median")),
    ("p95", 0.95, Style("triangle", "c1", "p95")),
    ("p99", 0.99, Style("diamond", "c2", "p99")),
)
_SLICES, _STEEP, _MOST_OPEN = 120, 20.0, 3
_ABOVE = Style("cross", "c3", "above capacity: the queue grows")


class QuantilePoint(NamedTuple):
    """A quantile of a level; `line` says which of `_LINES` it belongs to."""

    line: int
    level: LevelRow
    latency: float


def section(run: Run, rows: Sequence[LevelRow]) -> doc.Section:
    """Drawn from two levels on."""
    drawn = sorted((row for row in rows if row.stats and row.stats.answered.value), key=_rate)
    points = [
        QuantilePoint(index, each, value)
        for index, (name, q, _) in enumerate(_LINES)
        for each in drawn
        if each.stats and np.isfinite(value := _value(each.stats, q))
        if each.grows or each.stats.latency[name].value is not None
    ]
    blocks = [doc.Chart("", partial(_curve, points))] if len(drawn) > 1 and points else []
    note = "Lines end when the queue grows: crosses are of one window, and a longer window has more."
    return doc.Section("curve", "Latency against rate", blocks, note=note, detail="page")


def _curve(points: Sequence[QuantilePoint]) -> Plot:
    latencies = [point.latency for point in points]
    kept = [[p for p in points if p.line == at and not p.level.grows] for at in range(len(_LINES))]
    return Plot(
        label="latency against rate",
        x=Axis(0.0, 1.08 * max(_rate(point.level) for point in points), "requests per second"),
        y=decades(latencies, 1.4, title="latency", unit=unit_of(max(latencies), "s")),
        marks=[
            *(
                Line([(_rate(p.level), p.latency) for p in line], f"line c{index}")
                for index, line in enumerate(kept)
            ),
            *map(_spot, sorted(points, key=lambda point: point.level.grows)),
        ],
        height=340,
    )


def _spot(point: QuantilePoint) -> Spot:
    stats, (name, _, style) = point.level.stats, _LINES[point.line]
    assert stats is not None
    ends, rate, grows = stats.latency[name].ci95, _rate(point.level), point.level.grows
    text = f"{name} {show(point.latency, 's', ends)} at {rate:.4g}/s"
    return Spot(rate, point.latency, _ABOVE if grows else style, text, None if grows else ends)


def _rate(each: LevelRow) -> float:
    """Return the answered rate for users, else the offered rate."""
    assert each.stats is not None
    return each.facts.rate or each.stats.answered.value or 0.0


def _value(stats: LevelStats, q: float) -> float:
    return float(np.quantile(stats.requests.latency[stats.steady :], q, method="higher"))


def over_time(rows: Sequence[LevelRow]) -> doc.Section:
    """Each level: what requests took by when they were due, in slices of time. A stall stands out."""
    levels = [row for row in rows if row.stats is not None]
    charts = [doc.Group(label(level.facts), [doc.Chart("", partial(_over_time, level))]) for level in levels]
    note = "Median and longest of the requests that were due in each slice of time; failed ones are left out."
    folded = doc.Folded(count(len(levels), "level"), charts, open=len(levels) <= _MOST_OPEN)
    return doc.Section("over-time", "Latency over time", [folded], note=note, detail="page")


def _over_time(each: LevelRow) -> Plot:
    assert each.stats is not None
    rows, whole = each.stats.requests, np.isfinite(each.stats.requests.latency)
    due, took = rows.due[whole] - rows.due[0], rows.latency[whole]
    edges = np.linspace(0.0, float(due[-1]) + 1e-9, _SLICES + 1)
    slices = np.split(np.arange(len(due)), np.searchsorted(due, edges[1:-1]))
    parts = [(float(due[part].mean()), took[part]) for part in slices if len(part)]
    middle = [(at, float(np.median(part))) for at, part in parts]
    longest = [(at, float(part.max())) for at, part in parts]
    ends = [max(value, 1e-9) for _, value in (*middle, *longest)]
    title, unit = "latency", unit_of(max(ends), "s")
    steep = max(ends) > _STEEP * min(ends)
    return Plot(
        label="latency over time",
        x=Axis(0.0, max(edges[-1], 1e-6), "seconds of the level"),
        y=decades(ends, 1.3, title=title, unit=unit) if steep else Axis(0.0, 1.08 * max(ends), title, unit),
        marks=[Line(longest, "line c2", "longest"), Line(middle, "line c0", "median")],
        height=220,
    )


class Knee(Struct, frozen=True):
    """Between which levels the knee lies, in requests per second or users; null if none bounds it."""

    low: float | None
    high: float | None
    sentence: str


def knee_of(run: Run, rows: Sequence[LevelRow]) -> Knee | None:
    """The knee of the levels that were asked for; none of one, or of a search for the peak: it says more."""
    if len(rows) < 2 or any(finding.kind == "load/peak" for finding in run.findings):
        return None
    slo = next((row.facts.slo for row in rows if row.facts.slo), "")
    return _of_promise(rows, slo) if slo else _of_power(rows)


def _of_promise(rows: Sequence[LevelRow], slo: str) -> Knee:
    found = find_load_knee([row.stats for row in rows if row.stats is not None])
    if found is None:
        return Knee(None, None, f"not known: no level certainly keeps or breaks {slo}")
    least, most = (_load(load, rows) for load in found)
    if found.low is None:
        sentence = f"below {most}, the lowest level that certainly breaks {slo}; none certainly keeps it"
    elif found.high is None:
        sentence = f"at {least} or above: there {slo} holds, and no higher level certainly breaks it"
    else:
        sentence = f"between {least} and {most}: {slo} holds at the first and certainly not at the second"
    return Knee(*found, sentence)


def _of_power(rows: Sequence[LevelRow]) -> Knee:
    """Return the knee of levels whose figures are trusted; those above capacity bound it."""
    told = [row.stats for row in rows if row.stats is not None and _counts(row)]
    found = knee_among(told)
    left_out = [_load(load_of(row.stats), rows) for row in rows if row.stats and not _counts(row)]
    without = f"; not trusted, and left out: {', '.join(left_out)}" if left_out else ""
    if found is None or found == (None, None):
        why = f"not known: {len(told)} of {len(rows)} levels can be trusted, two are needed"
        return Knee(None, None, why)
    least, most = (_load(load, rows) for load in found)
    if found.low is None:
        sentence = f"below {most}: no level is low enough to show from which load on answers only wait longer"
    elif found.high is None:
        sentence = f"above {least}: up to the highest level more load brings more than it costs"
    else:
        sentence = f"between {least} and {most}: more load than that mostly waits longer"
    return Knee(*found, f"{sentence} (answers per second over mean latency is largest there){without}")


def _counts(each: LevelRow) -> bool:
    return each.case.trust == "trusted" or (each.grows and each.case.trust != "invalid")


def _load(load: float | None, rows: Sequence[LevelRow]) -> str:
    if load is None:
        return ""
    return count(int(load), "user") if rows[0].facts.kind == "closed" else f"{load:.4g}/s"
