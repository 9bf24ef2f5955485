"""What a model costs beside its speed: the start, memory, the work of an item."""

from __future__ import annotations

import math

from laptime.analysis.summary import Stat
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports.document import Bar, Bars, Block, Facts, Folded, Group, Section, Text
from laptime.reports.documents.bench.lines import memory, models, startup, startups
from laptime.reports.documents.bench.machine import flat
from laptime.reports.documents.bench.reasons import unmeasured
from laptime.reports.documents.bench.table import Stats


def section(run: Run, stats: list[Stats]) -> Section:
    """Bars from zero; those of one group are on one scale."""
    return Section(
        id="cost",
        title="Cost",
        detail="page",
        blocks=[
            Group(title="Start-up", blocks=list(startups(run, stats, _waterfall).values())),
            Group(title="Memory", blocks=_memories(run, stats)),
            Group(title="Work", blocks=_work(run, stats)),
        ],
    )


def _waterfall(name: str, stats: Stats) -> Bars:
    """The start, one part after the other.

    The warm-up has the first call in it, and compiling is a part of the first call, so both begin with it.
    """
    begin: dict[str, float] = {}
    now = 0.0
    parts = startup(stats)
    for stat in parts:
        begin[stat.tag] = begin.get("time/compile", now) if stat.tag == "time/first_call" else now
        if stat.tag == "time/warm_up":
            begin[stat.tag] = begin.get("time/first_call", now)
        elif stat.tag != "time/compile":
            now = begin[stat.tag] + _length(stat)
    rows = []
    for stat in parts:
        gap = Bar(name="", value=begin[stat.tag], kind="gap")
        part = Bar(name="", value=_length(stat), kind=f"start-{stat.tag.rpartition('/')[2]}")
        rows.append(
            Bar(
                name=stat.title,
                value=gap.value + part.value,
                text=show(stat.value, stat.unit, stat.ci95),
                parts=[gap, part],
                note=stat.note,
            )
        )
    return Bars(title=name, rows=rows)


def _memories(run: Run, stats: list[Stats]) -> list[Bars]:
    """Memory of each case, all on one scale, so that bars of different cases can be compared."""
    pairs = list(zip(run.cases, stats, strict=True))
    whole = max((_length(stat) for own in stats for stat in memory(own)), default=0.0)
    several = sum(bool(memory(own)) for own in stats) > 1
    return [
        Bars(
            title=words.label(case, run) if several else "",
            whole=whole,
            rows=[
                Bar(
                    name=stat.tag.removeprefix("memory/").replace("/", " "),
                    value=_length(stat),
                    kind="on-device",
                    text=show(stat.value, stat.unit, stat.ci95),
                    note=stat.note,
                )
                for stat in memory(own)
            ],
        )
        for case, own in pairs
    ]


def _work(run: Run, stats: list[Stats]) -> list[Block]:
    blocks: list[Block] = [Text(text=text) for text in models(run, stats)]
    blocks += [Text(text=f"not measured: {text}") for text in unmeasured(run)]
    return blocks + [Folded(title=title, blocks=[Facts(rows=rows)]) for title, rows in _receipts(run).items()]


def _receipts(run: Run) -> dict[str, list[tuple[str, str]]]:
    """What the model is, and what was counted for its FLOPs; equal ones are shown once."""
    receipts: dict[str, list[tuple[str, str]]] = {}
    for name, title in (("model", "The model and its inputs"), ("count", "What was counted as FLOPs")):
        for case in run.cases:
            rows = flat(case.details.get(name, {}))
            if rows and rows not in receipts.values():
                label = words.label(case, run)
                receipts[f"{title}: {label}" if len(run.cases) > 1 else title] = rows
    return receipts


def _length(stat: Stat) -> float:
    value = stat.value or 0.0
    return value if math.isfinite(value) and value > 0 else 0.0
