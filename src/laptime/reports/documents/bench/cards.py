"""The numbers that people come for, each with the case that reached it."""

from __future__ import annotations

from collections.abc import Callable

from laptime.analysis.stat import Stat
from laptime.kit.units import show_interval
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports.document import Card
from laptime.reports.documents.bench.table import Stats, headline, throughput_regime_of


def cards(run: Run, stats: list[Stats]) -> list[Card]:
    """At most six."""
    heads = [stat for numbers in stats if (stat := headline(numbers)) and stat.value is not None]
    regime = heads[0].regime if heads else ""
    wanted: list[tuple[str, Callable[[float], float]]] = [
        (f"latency/{regime}/median", lambda value: -value),
        (f"throughput/{throughput_regime_of(stats)}", lambda value: value),
        ("flops/share_of_peak", lambda value: value),
        ("memory/device/peak", lambda value: value),
        ("memory/host/peak", lambda value: value),
        *(
            (tag, lambda value: -value)
            for numbers in stats[:1]
            for tag in numbers
            if tag.startswith("energy/")
        ),
    ]
    shown: list[Card] = []
    for tag, key in wanted:
        measured = [
            (case, numbers[tag])
            for case, numbers in zip(run.cases, stats, strict=True)
            if tag in numbers and numbers[tag].value is not None
        ]
        if measured:
            case, stat = max(measured, key=lambda pair: key(pair[1].value or 0.0))
            shown.append(_card(run, case, stat, several=len(measured) > 1))
    return shown[:6]


def _card(run: Run, case: Case, stat: Stat, *, several: bool) -> Card:
    title = stat.title
    if several and stat.better != "none":
        is_top = stat.better == "higher" or stat.tag.startswith("memory/")
        title = f"{'highest' if is_top else 'lowest'} {title}"
    conditions = [stat.regime] if stat.regime else []
    conditions += [words.label(case, run)] if len(run.cases) > 1 else []
    conditions += [held] if (held := words.held(run)) else []
    return Card(
        title=title,
        figure=stat.text,
        interval=show_interval(stat.ci95, stat.value, stat.unit) if stat.ci95 and stat.value else "",
        note=", ".join(conditions),
    )
