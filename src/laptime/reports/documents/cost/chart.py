"""USD per 1 M against latency: what was measured, with intervals, and what other machines cannot beat."""

from __future__ import annotations

import math

from laptime.kit.units import scale as unit_of
from laptime.kit.units import show, usd
from laptime.records.cost import Cost, Elsewhere, Line
from laptime.reports import document as doc
from laptime.reports.documents.cost import words
from laptime.reports.page.plot import Plot, Spot, Style, decades, numbered

_BOUND = Style("square", "c5", "what the cheapest machine of a kind cannot beat")
_MOST_BOUNDS = 16


def section(cost: Cost) -> doc.Section:
    """Nothing where no measured line has a latency."""
    note = "Down and to the left is better. Vertical bars are 95 % intervals."
    if _bounds(cost):
        note += " Squares are bounds: a machine lies above and to the right of its square, or on it."
    blocks = [doc.Chart(title="", plot=lambda: _plot(cost), note=note)] if _measured(cost) else []
    return doc.Section(id="chart", title="Cost against latency", blocks=blocks, detail="page")


def _measured(cost: Cost) -> list[Line]:
    """Lines with a latency."""
    return [line for line in cost.lines if line.speed.latency and math.isfinite(line.usd_per_million)]


def _bounds(cost: Cost) -> dict[str, Elsewhere]:
    """The cheapest of each accelerator or kind of core."""
    kinds: dict[str, Elsewhere] = {}
    for row in cost.elsewhere:
        if row.kind == "bounded" and row.latency and row.usd_per_million:
            kinds.setdefault(row.machine.accelerator or "|".join(row.machine.cpu), row)
    return dict(list(kinds.items())[:_MOST_BOUNDS])


def _plot(cost: Cost) -> Plot:
    """Both axes are logarithmic: costs and latencies of machines differ by factors."""
    measured, bounds, units = _measured(cost), _bounds(cost), words.units(cost)
    machines = list(dict.fromkeys(line.machine for line in measured))
    styles = {name: numbered(at, f"{name}, measured") for at, name in enumerate(machines)}
    spots = [_spot(line, styles[line.machine], several=len(cost.lines) > 1) for line in measured]
    spots += [_bound(kind, row) for kind, row in bounds.items()]
    times = [spot.x for spot in spots]
    costs = [end for spot in spots for end in (spot.y, *(spot.ends or ())) if 0 < end < math.inf]
    return Plot(
        label=f"USD per 1 M {units} against latency",
        x=decades(times, 1.6, title="latency of a call", unit=unit_of(max(times), "s")),
        y=decades(costs, 1.4, title=f"USD per 1 M {units}"),
        marks=spots,
        height=360,
    )


def _spot(line: Line, style: Style, *, several: bool) -> Spot:
    """A measured line; its machine is told by colour and shape where several lines have their own names."""
    value, latency, ends = line.usd_per_million, line.speed.latency or 0.0, line.ci95
    text = f"{line.speed.label} ({line.machine}), measured: {usd(value, ends)} USD, {show(latency, 's')}"
    return Spot(latency, value, style, text, ends, line.speed.label if several else line.machine)


def _bound(kind: str, row: Elsewhere) -> Spot:
    value, latency, name = row.usd_per_million or 0.0, row.latency or 0.0, row.machine.name
    text = f"{name} ({name}), bounded: at least {usd(value)} USD, at least {show(latency, 's')}"
    return Spot(latency, value, _BOUND, text, label=kind)
