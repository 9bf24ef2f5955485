"""The costs of a model beside its speed: the start, memory, work of an item, and the gain of more cores."""

import math

from laptime.analysis.scaling import Scaled, scaling, siblings_pay
from laptime.analysis.stat import Stat
from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports import document as doc
from laptime.reports.documents.bench.lines import memory, memory_name, models, startup, startups
from laptime.reports.documents.bench.machine import flat
from laptime.reports.documents.bench.reasons import list_unmeasured
from laptime.reports.documents.bench.table import Stats
from laptime.reports.fields import Field, tabulate


def section(run: Run, stats: list[Stats]) -> doc.Section:
    """Bars from zero; those of one group are on one scale."""
    starts = doc.Group("Start-up", [_waterfall(*start) for start in startups(run, stats).items()])
    rows = []
    for case, numbers in zip(run.cases, stats, strict=True):
        lead = f"{words.label(case, run)}, " if len(run.cases) > 1 else ""
        rows += [_bar(stat, lead + memory_name(stat), kind="on-device") for stat in memory(numbers)]
    groups = [starts, doc.Group("Memory", [doc.Bars(rows)]), doc.Group("Work", _work(run, stats))]
    return doc.Section("cost", "Cost", groups, detail="page")


def _waterfall(name: str, stats: Stats) -> doc.Bars:
    """The start, one part after the other.

    The warm-up has the first call in it, and compiling is a part of the first call, so both begin with it."""
    begin: dict[str, float] = {}
    now = 0.0
    parts = startup(stats)
    for stat in parts:
        begin[stat.tag] = begin.get("time/compile", now) if stat.tag == "time/first_call" else now
        if stat.tag == "time/warm_up":
            begin[stat.tag] = begin.get("time/first_call", now)
        elif stat.tag != "time/compile":
            now = begin[stat.tag] + _length(stat)
    told = zip(parts, [f"start-{stat.tag.rpartition('/')[2]}" for stat in parts], strict=True)
    return doc.Bars([_bar(each, each.title, kind=k, begin=begin[each.tag]) for each, k in told], title=name)


def _bar(stat: Stat, name: str, *, kind: str = "", begin: float = 0.0) -> doc.Bar:
    length = _length(stat)
    parts = [doc.Bar("", begin, kind="gap"), doc.Bar("", length, kind=kind)] if begin else []
    return doc.Bar(name, begin + length, stat.text, kind=kind, parts=parts, note=stat.note)


def _work(run: Run, stats: list[Stats]) -> list[doc.Block]:
    blocks: list[doc.Block] = [doc.Text(text) for text in models(run, stats)]
    blocks += [doc.Text(f"not measured: {text}") for text in list_unmeasured(run)]
    return blocks + [doc.Folded(title, [doc.Facts(rows)]) for title, rows in _receipts(run).items()]


def _receipts(run: Run) -> dict[str, list[tuple[str, str]]]:
    """Describe the model, and what was counted for its FLOPs; equal ones are shown once."""
    receipts: dict[str, list[tuple[str, str]]] = {}
    titles = {"model": "The model and its inputs", "inputs": "What its calls got"}
    for name, title in {**titles, "count": "What was counted as FLOPs"}.items():
        for case in run.cases:
            rows = flat(getattr(case.details, name))
            if rows and rows not in receipts.values():
                label = words.label(case, run)
                receipts[f"{title}: {label}" if len(run.cases) > 1 else title] = rows
    return receipts


def _length(stat: Stat) -> float:
    value = stat.value or 0.0
    return value if math.isfinite(value) and value > 0 else 0.0


def cores(run: Run) -> doc.Section:
    """A row a number of threads and instances, fewest first; nothing if there is one number alone."""
    cores = run.environment.physical_cores
    rows = scaling(run.cases, run.constants, None if cores is None else float(cores))
    each_thread = lambda row: doc.number(row.rate.value / row.workers, "1/s")  # noqa: E731
    fields = [
        Field("threads", "threads", "count"),
        any(row.instances > 1 for row in rows) and Field("instances", "instances", "count"),
        Field("throughput", lambda row: doc.as_cell(row.rate), "number", "of all instances together"),
        Field("a thread", each_thread, "number", "throughput over threads of all instances"),
        Field("efficiency", "efficiency", "share", "of a thread, against the fewest"),
        Field("cores", words.busy_cores, note="physical ones that are kept busy"),
    ]
    table = tabulate("core", fields, rows, row=lambda row: {"key": row.case})
    return doc.Section("cores", "Cores", [table, doc.Facts(_facts(run, rows) if rows else [])])


def _facts(run: Run, rows: list[Scaled]) -> list[tuple[str, str]]:
    """The fastest, the cheapest per core, and what hyperthreads do."""
    fastest = max(rows, key=lambda row: row.rate.value)
    facts = [("fastest", f"{_name(fastest)}: {fastest.rate.text}")]
    per_core = [row for row in rows if row.cores]
    if per_core:
        best = max(per_core, key=lambda row: row.rate.value / (row.cores or 1.0))
        rate = show(best.rate.value / (best.cores or 1.0), "1/s")
        facts.append(("per core", f"{_name(best)} gives most for a core: {rate}"))
    facts.append(("siblings", _siblings(run, rows)))
    return [*facts, ("price", f"next: laptime cost {run.id} --usd-per-hour 1   # or --machine NAME")]


def _siblings(run: Run, rows: list[Scaled]) -> str:
    if run.environment.physical_cores is None:
        return "the hypervisor hides which CPUs share a core: a vCPU is one hyperthread on most clouds"
    apart, shared = ([row for row in rows if row.siblings is value] for value in (False, True))
    if not shared:
        return f"all threads had a core of their own ({run.environment.physical_cores} cores)"
    if not apart:
        return "all had more threads than cores"
    best, above = (max(group, key=lambda row: row.rate.value) for group in (apart, shared))
    gain = percent(abs(above.rate.value / best.rate.value - 1))
    if siblings_pay(rows) is not None:
        return f"second threads of a core pay: {_name(above)} gives {gain} more than {_name(best)}"
    word = "more" if above.rate.value > best.rate.value else "less"
    return f"second threads of a core may not pay: {_name(above)} gives {gain} {word} than {_name(best)}"


def _name(row: Scaled) -> str:
    threads = count(row.threads, "thread")
    return threads if row.instances == 1 else f"{row.instances} instances of {threads}"
