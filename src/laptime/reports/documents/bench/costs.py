"""What a model costs beside its speed: the start, memory, the work of an item."""

from __future__ import annotations

import math

from laptime.analysis.stat import Stat
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports.document import Bar, Bars, Block, Facts, Folded, Group, Section, Text
from laptime.reports.documents.bench.lines import memory, memory_name, models, startup, startups
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
            Group(title="Start-up", blocks=[_waterfall(*start) for start in startups(run, stats).items()]),
            Group(title="Memory", blocks=[_memories(run, stats)]),
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
    kinds = {stat.tag: f"start-{stat.tag.rpartition('/')[2]}" for stat in parts}
    rows = [_bar(stat, stat.title, kind=kinds[stat.tag], begin=begin[stat.tag]) for stat in parts]
    return Bars(title=name, rows=rows)


def _memories(run: Run, stats: list[Stats]) -> Bars:
    """Memory of all cases on one scale."""
    rows = []
    for case, numbers in zip(run.cases, stats, strict=True):
        lead = f"{words.label(case, run)}, " if len(run.cases) > 1 else ""
        for stat in memory(numbers):
            name = lead + memory_name(stat)
            rows.append(_bar(stat, name, kind="on-device"))
    return Bars(rows=rows)


def _bar(stat: Stat, name: str, *, kind: str = "", begin: float = 0.0) -> Bar:
    length = _length(stat)
    parts = [Bar(name="", value=begin, kind="gap"), Bar(name="", value=length, kind=kind)] if begin else []
    end, text = begin + length, stat.text
    return Bar(name=name, value=end, text=text, kind=kind, parts=parts, note=stat.note)


def _work(run: Run, stats: list[Stats]) -> list[Block]:
    blocks: list[Block] = [Text(text=text) for text in models(run, stats)]
    blocks += [Text(text=f"not measured: {text}") for text in unmeasured(run)]
    return blocks + [Folded(title=title, blocks=[Facts(rows=rows)]) for title, rows in _receipts(run).items()]


def _receipts(run: Run) -> dict[str, list[tuple[str, str]]]:
    """What the model is, and what was counted for its FLOPs; equal ones are shown once."""
    receipts: dict[str, list[tuple[str, str]]] = {}
    titles = {
        "model": "The model and its inputs",
        "inputs": "What its calls got",
        "count": "What was counted as FLOPs",
    }
    for name, title in titles.items():
        for case in run.cases:
            rows = flat(case.details.get(name, {}))
            if rows and rows not in receipts.values():
                label = words.label(case, run)
                receipts[f"{title}: {label}" if len(run.cases) > 1 else title] = rows
    return receipts


def _length(stat: Stat) -> float:
    value = stat.value or 0.0
    return value if math.isfinite(value) and value > 0 else 0.0
