"""The numbers that people come for, each with the case that reached it."""

from __future__ import annotations

from laptime.analysis.stat import Stat
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports.document import Card
from laptime.reports.documents.bench import table
from laptime.reports.documents.bench.table import Stats


def cards(run: Run, stats: list[Stats]) -> list[Card]:
    """At most six."""
    heads = [stat for numbers in stats if (stat := table.headline(numbers)) and stat.value is not None]
    regime = heads[0].regime if heads else ""
    wanted = [
        f"latency/{regime}/median",
        table.RATE,
        "flops/share_of_peak",
        "memory/device/peak",
        "memory/host/peak",
        *(tag for numbers in stats[:1] for tag in numbers if tag.startswith("energy/")),
    ]
    shown: list[Card] = []
    for tag in wanted:
        measured = _sound(
            [
                (case, stat)
                for case, stat in zip(run.cases, table.numbers_of(stats, tag), strict=True)
                if stat is not None and stat.value is not None
            ]
        )
        if measured:
            choose = max if _is_top(measured[0][1]) else min
            case, stat = choose(measured, key=lambda pair: pair[1].value or 0.0)
            shown.append(_card(run, case, stat, several=len(measured) > 1))
    return shown[:6]


def _sound(measured: list[tuple[Case, Stat]]) -> list[tuple[Case, Stat]]:
    """Those that can be the best of all: valid, and not of disturbed calls; all where there are none."""
    valid = [pair for pair in measured if pair[0].trust != "invalid"] or measured
    return [pair for pair in valid if not pair[1].crowded] or valid


def _is_top(stat: Stat) -> bool:
    """Whether the highest of several is the one to tell; memory is wanted low, but has to be there."""
    return stat.better == "higher" or stat.tag.startswith("memory/")


def _card(run: Run, case: Case, stat: Stat, *, several: bool) -> Card:
    title = stat.title
    if several and stat.better != "none":
        title = f"{'highest' if _is_top(stat) else 'lowest'} {title}"
    conditions = [stat.regime] if stat.regime else []
    conditions += [words.label(case, run)] if len(run.cases) > 1 else []
    conditions += [held] if (held := words.held(run)) else []
    return Card(
        title=title,
        figure=stat.text,
        interval=table.interval_text(stat),
        note=", ".join(conditions),
    )
