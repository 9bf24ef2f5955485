"""What the cheapest line comes to: a training, a month at a rate, an hour."""

from __future__ import annotations

import math

from laptime.kit.text import count
from laptime.kit.units import percent, show, usd, usd_interval
from laptime.records.cost import Cost, Line
from laptime.reports import document as doc
from laptime.reports.documents.cost import words


def section(cost: Cost) -> doc.Section:
    """Sentences on the bill."""
    return doc.Section(id="bill", title="The bill", headed=False, blocks=[doc.Facts(rows=_rows(cost))])


def _rows(cost: Cost) -> list[tuple[str, str]]:
    best = words.best(cost)
    rows = [("machine", _hour(best))]
    for line in [best] if len(cost.lines) > 3 or not _is_before_after(cost) else cost.lines:
        label = f"{line.speed.label}: " if len(cost.lines) > 1 else ""
        told = (*_training(line), *_monthly(line, words.units(cost)))
        rows += [(topic, label + text) for topic, text in told]
    return rows


def _is_before_after(cost: Cost) -> bool:
    return bool(cost.savings)


def _hour(line: Line) -> str:
    share = f" ({line.share:.3g} of {line.machine})" if line.share < 1 else ""
    month = f"{usd(line.usd_per_month)} USD for a month of 730 h, whether it works or not"
    return f"{usd(line.usd_per_hour)} USD/h{share}; {month}"


def _training(line: Line) -> list[tuple[str, str]]:
    training = line.training
    if training is None:
        return []
    is_whole = training.epochs == int(training.epochs)
    epochs = count(int(training.epochs), "epoch") if is_whole else f"{training.epochs:g} epochs"
    around = f" {usd_interval(training.ci95)}" if training.ci95 else ""
    digits = max(0, 2 - math.floor(math.log10(training.hours))) if training.hours > 0 else 0
    hours = f"{training.hours:,.{digits}f} h" if training.hours >= 0.1 else show(training.hours * 3600, "s")
    return [
        ("epoch", f"{usd(training.usd_per_epoch)} USD for {training.samples:,.0f} {line.speed.unit}s"),
        ("training", f"{usd(training.usd, training.ci95)} USD{around} for {epochs}, {hours}"),
    ]


def _monthly(line: Line, units: str) -> list[tuple[str, str]]:
    month = line.monthly
    if month is None:
        return []
    machines = f"{count(month.machines, 'machine')}, used to {percent(month.utilization)}"
    each = f"{usd(month.usd_per_million)} USD per 1 M {units} really served"
    return [("month", f"{usd(month.usd)} USD at {month.rate:g} {units}/s: {machines}; {each}")]


def cards(cost: Cost) -> list[doc.Card]:
    """The numbers that people come for, of the cheapest line."""
    best, units = words.best(cost), words.units(cost)
    made = [
        doc.Card(
            title=f"USD per 1 M {units}",
            figure=usd(best.usd_per_million, best.ci95),
            interval=usd_interval(best.ci95),
            note=", ".join(
                filter(None, (words.at(best.speed), best.speed.label if len(cost.lines) > 1 else ""))
            ),
        ),
        doc.Card(title=f"{units} per USD", figure=f"{best.units_per_usd:,.0f}", note=best.machine),
        doc.Card(title="USD a month", figure=usd(best.usd_per_month), note="730 h, whether it works or not"),
    ]
    if best.training is not None:
        training = best.training
        made.append(
            doc.Card(
                title="USD a training",
                figure=usd(training.usd, training.ci95),
                interval=usd_interval(training.ci95),
                note=f"{training.epochs:g} x {training.samples:,.0f} {best.speed.unit}s",
            )
        )
    if best.monthly is not None:
        month = best.monthly
        used = f"{count(month.machines, 'machine')}, used to {percent(month.utilization)}"
        note = f"at {month.rate:g}/s, {used}"
        made.append(doc.Card(title="USD a month at this rate", figure=usd(month.usd), note=note))
    return made
