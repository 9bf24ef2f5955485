"""The measured lines of a cost: a table, one against another, by number of cores, against latency."""

from __future__ import annotations

import math

from laptime.kit.units import percent, show, show_interval, usd, usd_interval
from laptime.kit.units import scale as unit_of
from laptime.records.cost import Cores, Cost, Elsewhere, Line, Saving
from laptime.reports import document as doc
from laptime.reports.documents.cost import words
from laptime.reports.page.plot import Plot, Spot, Style, decades, numbered

_BOUND = Style("square", "c5", "what the cheapest machine of a kind cannot beat")
_MOST_BOUNDS = 16


def section(cost: Cost) -> doc.Section:
    """A row a measured speed, the cheapest of each run standing out."""
    several_runs, several_machines = len(cost.runs) > 1, len({line.machine for line in cost.lines}) > 1
    unit = words.units(cost)
    columns = [
        *([doc.Column(title="run", kind="code")] if several_runs else []),
        doc.Column(title="case"),
        *([doc.Column(title="machine", kind="code")] if several_machines else []),
        doc.Column(title=f"USD per 1 M {unit}", kind="number"),
        doc.Column(title="throughput", kind="number", note=f"{unit} per second"),
        doc.Column(title="latency", kind="number", regime="median", priority=2),
        *([doc.Column(title="at", priority=1)] if _varies(cost) else []),
        doc.Column(title=f"{unit} per USD", kind="number", priority=3),
        doc.Column(title="verdict"),
    ]
    rows = [
        _row(line, cost, several_runs=several_runs, several_machines=several_machines) for line in cost.lines
    ]
    excluded = [doc.Notice(level="left out", text=f"{each.case}: {each.reason}") for each in cost.excluded]
    note = "What is bounded or predicted stands apart." if cost.elsewhere else "All of it was measured."
    costs = doc.Table(id="cost", columns=columns, rows=rows)
    if costs.has_intervals:
        note += " In brackets: the 95 % interval, which is that of the throughput."
    return doc.Section(
        id="costs",
        title="What was measured",
        headed=False,
        note=note,
        blocks=[costs, doc.Notices(rows=excluded)],
    )


def _varies(cost: Cost) -> bool:
    """Whether lines hold under different conditions; one that all share stands in the verdict."""
    return len({line.speed.at for line in cost.lines}) > 1


def _row(line: Line, cost: Cost, *, several_runs: bool, several_machines: bool) -> doc.Row:
    speed = line.speed
    names = {run.id: run.name or run.id for run in cost.runs}
    cells: list[doc.Value | doc.Cell] = [
        *([names.get(speed.run, speed.run)] if several_runs else []),
        speed.label,
        *([line.machine] if several_machines else []),
        doc.Cell(
            text=usd(line.usd_per_million, line.ci95),
            value=line.usd_per_million,
            interval=usd_interval(line.ci95),
        ),
        doc.Cell(
            text=show(speed.rate, "1/s", speed.ci95),
            value=speed.rate,
            interval=show_interval(speed.ci95, speed.rate, "1/s") if speed.ci95 else "",
        ),
        doc.Cell(text=show(speed.latency, "s", speed.latency_ci95), value=speed.latency),
        *([speed.at] if _varies(cost) else []),
        doc.Cell(text=f"{line.units_per_usd:,.0f}", value=line.units_per_usd),
        doc.Cell(text=speed.verdict, tone=speed.verdict),
    ]
    several = len(cost.lines) > 1
    notes = [f"its price is that of {line.share:.3g} of {line.machine}"] if line.share < 1 else []
    return doc.Row(cells=cells, tone="strong" if line.cheapest and several else "", notes=notes)


def savings(cost: Cost) -> doc.Section:
    """Before and after, with what that is a month and a training."""
    rows = [_saving(each) for each in cost.savings]
    columns = [
        doc.Column(title="before", kind="code"),
        doc.Column(title="after", kind="code"),
        doc.Column(title="USD per 1 M", kind="number", regime="before"),
        doc.Column(title="USD per 1 M", kind="number", regime="after"),
        doc.Column(title="cheaper by", kind="number"),
        doc.Column(title="saved a month", kind="number", note="at the rate that was asked about"),
        doc.Column(title="saved a training", kind="number"),
        doc.Column(title="word"),
    ]
    apart = [
        doc.Text(
            text="The two were measured apart: the interval reaches from end to end. "
            "laptime compare measures them side by side."
        )
    ]
    blocks = [doc.Table(id="saving", columns=columns, rows=rows)] if rows else []
    is_apart = any(not each.paired for each in cost.savings)
    return doc.Section(id="savings", title="Before and after", blocks=[*blocks, *(apart if is_apart else [])])


def _saving(each: Saving) -> doc.Row:
    def money(value: float | None) -> doc.Cell:
        return doc.Cell(text=usd(value), value=value)

    interval = usd_interval(each.ci95)
    factor = doc.Cell(text=f"{each.ratio:.2f}x", value=each.ratio, interval=interval)
    ends = [money(each.usd_before), money(each.usd_after)]
    more = [money(each.usd_per_month), money(each.usd_per_training)]
    tone = {"cheaper": "faster", "dearer": "slower"}.get(each.word, "unclear")
    word = doc.Cell(text=each.word, tone=tone)
    return doc.Row(cells=[each.before, each.after, *ends, factor, *more, word])


def cores(cost: Cost) -> doc.Section:
    """Threads and instances, and what each number costs on the smallest machine with the cores for it."""
    columns = [
        doc.Column(title="threads", kind="count"),
        *([doc.Column(title="instances", kind="count")] if _has_instances(cost) else []),
        doc.Column(title="throughput", kind="number"),
        doc.Column(title="efficiency", kind="share", note="of a thread, against one alone"),
        doc.Column(title="cores", priority=2, note="physical ones that it keeps busy"),
        doc.Column(title="machine", kind="code", note="sized down to these cores and the measured memory"),
        doc.Column(title="USD/h", kind="number", priority=1),
        doc.Column(title="USD per 1 M", kind="number"),
        doc.Column(title="promise"),
    ]
    rows = [_cores(row, several=_has_instances(cost)) for row in cost.cores]
    sentence = _cheapest(cost)
    said = [doc.Text(text=sentence)] if sentence else []
    table = [doc.Table(id="cores", columns=columns, rows=rows)] if rows else []
    return doc.Section(id="cores", title="Cores", blocks=[*said, *table])


def _has_instances(cost: Cost) -> bool:
    return any(row.instances > 1 for row in cost.cores)


def _cores(row: Cores, *, several: bool) -> doc.Row:
    busy = "-" if row.cores is None else f"{row.cores:g}" + (", shared" if row.siblings else "")
    promise = {True: "kept", False: "not kept", None: ""}[row.holds]
    return doc.Row(
        cells=[
            row.threads,
            *([row.instances] if several else []),
            doc.Cell(
                text=show(row.rate, "1/s", row.ci95),
                value=row.rate,
                interval=show_interval(row.ci95, row.rate, "1/s") if row.ci95 else "",
            ),
            row.efficiency,
            busy,
            row.machine or "-",
            doc.Cell(text=usd(row.usd_per_hour), value=row.usd_per_hour),
            doc.Cell(text=usd(row.usd_per_million), value=row.usd_per_million),
            promise,
        ],
        tone="strong" if row.cheapest else "",
    )


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
    """Nothing where no measured line has a latency."""
    note = "Down and to the left is better. Vertical bars are 95 % intervals."
    if _bounds(cost):
        note += " Squares are bounds: a machine lies above and to the right of its square, or on it."
    blocks = [doc.Chart(title="", plot=lambda: _chart(cost), note=note)] if _measured(cost) else []
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


def _chart(cost: Cost) -> Plot:
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
