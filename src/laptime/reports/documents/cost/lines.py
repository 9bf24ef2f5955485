"""The measured lines of a cost: a table, one against another, by number of cores, against latency."""

import math
from typing import Any

from msgspec.structs import replace

from laptime.kit.units import percent, show, usd, usd_interval
from laptime.kit.units import scale as unit_of
from laptime.records.cost import Cost, Elsewhere, Line
from laptime.reports import document as doc
from laptime.reports._words import busy_cores
from laptime.reports.documents.cost import words
from laptime.reports.fields import Field, cut, tabulate
from laptime.reports.page.plot import Plot, Spot, Style, decades, pick_style

_BOUND = Style("square", "c5", "what the cheapest machine of a kind cannot beat")
_MOST_BOUNDS = 16
_SIZED = "reduced to these cores and the measured memory"
_HOLDS = {True: "kept", False: "not kept", None: ""}


def _table(cost: Cost) -> doc.Table:
    """A row a measured speed, the cheapest of each run standing out."""
    unit, names = words.units(cost), {run.id: run.name or run.id for run in cost.runs}
    fields = [
        len(cost.runs) > 1 and Field("run", lambda line: names.get(line.speed.run, line.speed.run), "code"),
        Field("case", "speed.label"),
        len({line.machine for line in cost.lines}) > 1 and Field("machine", "machine", "code"),
        Field(f"USD per 1 M {unit}", lambda line: words.price(line.cost), "number"),
        Field("throughput", lambda line: doc.as_cell(line.speed.throughput), "number", f"{unit} per second"),
        Field("latency", _latency, "number", regime="median", priority=2),
        # What holds for all lines stands in the verdict.
        len({line.speed.at for line in cost.lines}) > 1 and Field("at", "speed.at", priority=1),
        Field(f"{unit} per USD", words.show_field("units_per_usd", "{:,.0f}".format), "number", priority=3),
        Field("verdict", lambda line: doc.Cell(line.speed.verdict, tone=line.speed.verdict)),
    ]

    def row(line: Line) -> dict[str, Any]:
        notes = [f"its price is that of {line.share:.3g} of {line.machine}"] if line.share < 1 else []
        return {"tone": "strong" if line.cheapest and len(cost.lines) > 1 else "", "notes": notes}

    return tabulate("cost", fields, cost.lines, row=row)


def section(cost: Cost) -> doc.Section:
    """The table, and what could not be priced."""
    costs = _table(cost)
    excluded = [doc.Notice("left out", f"{each.case}: {each.reason}") for each in cost.excluded]
    note = "Bounds and predictions are shown separately." if cost.elsewhere else "All lines were measured."
    if costs.has_intervals:
        note += " In brackets: the 95 % interval, which is that of the throughput."
    return doc.Section("costs", "What was measured", [costs, doc.Notices(excluded)], headed=False, note=note)


def brief(cost: Cost) -> list[doc.Block]:
    """The cheapest lines, if there are several; the cheapest number of cores."""
    lines = sorted(cost.lines, key=lambda line: line.usd_per_million)[:3]
    several = replace(cost, lines=lines if len(lines) > 1 and not cost.savings else [])
    return [cut(_table(several), without=("verdict", " per USD")), doc.Text(_cheapest(cost))]


def _latency(line: Line) -> doc.Cell:
    return doc.Cell(show(line.speed.latency, "s", line.speed.latency_ci95), line.speed.latency)


def savings(cost: Cost) -> doc.Section:
    """Before and after, with what that is a month and a training."""
    factor = lambda each: doc.Cell(f"{each.ratio:.2f}x", each.ratio, usd_interval(each.ci95))  # noqa: E731
    fields = [
        Field("before", "before", "code"),
        Field("after", "after", "code"),
        Field("USD per 1 M", words.show_field("usd_before"), "number", regime="before"),
        Field("USD per 1 M", words.show_field("usd_after"), "number", regime="after"),
        Field("cheaper by", factor, "number"),
        Field("saved a month", words.show_field("usd_per_month"), "number", "at the given rate"),
        Field("saved a training", words.show_field("usd_per_training"), "number"),
        Field("word", lambda each: doc.Cell(each.word, tone=each.word)),
    ]
    apart = "The two were measured apart: the interval reaches from end to end. "
    apart += "laptime compare measures them side by side."
    note = doc.Text("" if all(saving.paired for saving in cost.savings) else apart)
    return doc.Section("savings", "Before and after", [tabulate("saving", fields, cost.savings), note])


def cores(cost: Cost) -> doc.Section:
    """Threads and instances, and what each number costs on the smallest machine with the cores for it."""
    fields = [
        Field("threads", "threads", "count"),
        any(row.instances > 1 for row in cost.cores) and Field("instances", "instances", "count"),
        Field("throughput", lambda row: doc.number(row.rate, "1/s", row.ci95), "number"),
        Field("efficiency", "efficiency", "share", "of a thread, against one alone"),
        Field("cores", busy_cores, note="physical ones that it keeps busy", priority=2),
        Field("machine", lambda row: row.machine or "-", "code", _SIZED),
        Field("USD/h", words.show_field("usd_per_hour"), "number", priority=1),
        Field("USD per 1 M", words.show_field("usd_per_million"), "number"),
        Field("promise", lambda row: _HOLDS[row.holds]),
    ]
    strong = lambda row: {"tone": "strong" if row.cheapest else ""}  # noqa: E731
    table = tabulate("cores", fields, cost.cores, row=strong)
    return doc.Section("cores", "Cores", [doc.Text(_cheapest(cost)), table])


def _cheapest(cost: Cost) -> str:
    best = next((row for row in cost.cores if row.cheapest), None)
    if best is None:
        return ""
    promised = f" that keeps {cost.slo}" if cost.slo else ""
    what = f"{best.threads} threads" if best.threads > 1 else "1 thread"
    copies = f" in {best.instances} instances" if best.instances > 1 else ""
    efficiency = f", {percent(best.efficiency)} efficient" if best.efficiency else ""
    return f"The cheapest{promised}: {what}{copies} on {best.machine}{efficiency}"


def chart(cost: Cost) -> doc.Section:
    """Nothing if no measured line has a latency."""
    note = "Down and to the left is better. Vertical bars are 95 % intervals."
    if _bounds(cost):
        note += " Squares are bounds: a machine lies above and to the right of its square, or on it."
    blocks = [doc.Chart("", lambda: _chart(cost), note=note)] if _find_measured(cost) else []
    return doc.Section("chart", "Cost against latency", blocks, detail="page")


def _find_measured(cost: Cost) -> list[Line]:
    return [line for line in cost.lines if line.speed.latency and math.isfinite(line.usd_per_million)]


def _bounds(cost: Cost) -> dict[str, Elsewhere]:
    """The cheapest of each accelerator or kind of core."""
    kinds: dict[str, Elsewhere] = {}
    for row in cost.elsewhere:
        if row.kind == "bounded" and row.latency and row.usd_per_million:
            kinds.setdefault(row.machine.accelerator or "|".join(row.machine.cpu), row)
    return dict(list(kinds.items())[:_MOST_BOUNDS])


def _chart(cost: Cost) -> Plot:
    """Both axes are logarithmic: costs and latencies of machines differ by factors."""
    measured, bounds, units = _find_measured(cost), _bounds(cost), words.units(cost)
    machines = list(dict.fromkeys(line.machine for line in measured))
    styles = {name: pick_style(index, f"{name}, measured") for index, name in enumerate(machines)}
    # A machine is told by colour and shape if several lines have their own names.
    names = [line.speed.label if len(cost.lines) > 1 else line.machine for line in measured]
    spots = [_spot(line, styles[line.machine], name) for line, name in zip(measured, names, strict=True)]
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


def _spot(line: Line, style: Style, name: str) -> Spot:
    value, latency, ends = line.usd_per_million, line.speed.latency or 0.0, line.cost.interval
    text = f"{line.speed.label} ({line.machine}), measured: {usd(value, ends)} USD, {show(latency, 's')}"
    return Spot(latency, value, style, text, ends, name)


def _bound(kind: str, row: Elsewhere) -> Spot:
    value, latency, name = row.usd_per_million or 0.0, row.latency or 0.0, row.machine.name
    text = f"{name} ({name}), bounded: at least {usd(value)} USD, at least {show(latency, 's')}"
    return Spot(latency, value, _BOUND, text, label=kind)
