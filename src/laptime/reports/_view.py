"""A run as a reader sees it: table, lines and sentences, chosen once and drawn by each report its own way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from msgspec import Struct

from laptime.analysis import compare
from laptime.analysis.evidence import select
from laptime.analysis.quantiles import effective_size, samples_needed
from laptime.analysis.summary import Stat, summarize, throughput_regime
from laptime.kit.units import show, show_interval
from laptime.records.case import Case, Failure
from laptime.records.check import Trust
from laptime.records.comparison import Comparison
from laptime.records.finding import Finding
from laptime.records.run import Run
from laptime.reports import _across
from laptime.reports import _words as words

LATENCIES = ("isolated", "paced", "device")
ENERGIES = ("energy/item/net", "energy/item/gross", "energy/item", "energy/net", "energy/gross", "energy")
STARTUP = ("time/import", "time/export", "time/load", "time/compile", "time/first_call", "time/warm_up")
_SHOWN = ("latency/", "throughput/", "time/", "params/", "buffers/", "macs", "flops", "memory/", "energy/")
_EVIDENCE = ("evidence/", "disturbance/", "timer/")

_MOST_REPORTED = 4

Stats = dict[str, Stat]
T = TypeVar("T")


class Cell(Struct, frozen=True, kw_only=True):
    """One number of the table in words.

    Attributes:
        interval: `[25.9, 26.8] ms`, the 95 % interval.
        margin: `±1.2 %`, half of it as a share of the value.
        value: in base units, for sorting and drawing.
        note: why there is no value, or what was excluded from it.
    """

    text: str
    interval: str = ""
    margin: str = ""
    value: float | None = None
    note: str = ""


class Column(Struct, frozen=True, kw_only=True):
    """A column of the case table; `regime` stands under the title; narrow pages leave out an `extra` one."""

    title: str
    regime: str = ""
    left: bool = False
    extra: bool = False
    lies_when: str = ""


class Row(NamedTuple):
    """A case, its cells in the order of the columns, and its word."""

    case: Case
    cells: list[Cell]
    state: str


class Line(NamedTuple):
    """One line below the table: a topic and what there is to say."""

    topic: str
    text: str


class Against(NamedTuple):
    """A comparison in words; `sides` is `batch 8: candidate against baseline`."""

    sides: str
    candidate: str
    baseline: str
    sentence: str
    record: Comparison

    @property
    def amount(self) -> str:
        """The sentence without its first word, which a table shows on its own."""
        return self.sentence.removeprefix(self.record.word).removeprefix(": ")


class View(Struct, frozen=True, kw_only=True):
    """All words of a report."""

    run: Run
    title: str
    trust: Trust
    because: str
    next: str
    reasons: list[words.Reason]
    where: list[str]
    held: str
    regimes: list[str]
    columns: list[Column]
    rows: list[Row]
    lines: list[Line]
    comparisons: list[Against]
    findings: list[Finding]
    failures: list[tuple[str, str, Failure]]
    stats: list[Stats]

    @property
    def measured(self) -> bool:
        """Whether the table has a number in it."""
        return any(stats for stats in self.stats)


def view(run: Run) -> View:
    """Everything a report says about a run."""
    stats = [summarize(case, run.constants) for case in run.cases]
    reasons = words.reasons(run)
    columns, rows = table(run, stats)
    bad = [reason for reason in reasons if reason.outcome in ("fail", "warn")]
    return View(
        run=run,
        title=words.title(run),
        trust=run.trust,
        because=words.because(run, [head(own) for own in stats], reasons),
        next=next((reason.next for reason in bad if reason.next), ""),
        reasons=reasons,
        where=words.where(run),
        held=words.held(run),
        regimes=[
            f"{r}: {words.REGIMES[r]}" for r in dict.fromkeys(c.regime for c in columns) if r in words.REGIMES
        ],
        columns=columns,
        rows=rows,
        lines=lines(run, stats),
        comparisons=[_against(each, run) for each in run.comparisons],
        findings=[finding for finding in run.findings if not finding.kind.startswith("model/")],
        failures=[
            (words.label(case, run), case.status, case.failure)
            for case in run.cases
            if case.failure is not None
        ],
        stats=stats,
    )


def head(stats: Stats) -> Stat | None:
    """The one number a case is known by, as `summary.headline`, from numbers already made."""
    tags = (f"latency/{regime}/median" for regime in (*LATENCIES, "saturated"))
    return next((stats[tag] for tag in tags if tag in stats), None)


def table(run: Run, stats: list[Stats]) -> tuple[list[Column], list[Row]]:
    """One row a case; only the columns that this run can fill, and that differ from row to row."""
    made: list[tuple[Column, list[Cell]]] = []
    if len({case.target for case in run.cases}) > 1:
        cells = [Cell(text=words.printable(case.target)) for case in run.cases]
        made.append((Column(title="target", left=True), cells))
    for name in words.varying(run):
        cells = [_axis_cell(case, name) for case in run.cases]
        numeric = all(cell.value is not None for cell in cells)
        made.append((Column(title=words.axis_title(name), left=not numeric), cells))
    is_across = _across.is_across(run)
    for index, (tag, title, regime) in enumerate([*_metrics(stats), *(_across.COLUMNS if is_across else ())]):
        extra = is_across and tag.startswith(_across.EXTRA)
        column = Column(title=title, regime=regime, lies_when=_lies_when(run, tag), extra=extra)
        cells = [_cell(case, own, tag) for case, own in zip(run.cases, stats, strict=True)]
        made.append((column, cells))
        if is_across and index == 0:
            texts = _across.against_first(run)
            made.append((Column(title="compared", left=True), [Cell(text=text) for text in texts]))
    states = [case.trust if case.status == "ok" else case.status for case in run.cases]
    if len({run.trust, *states}) > 1:
        made.append((Column(title="verdict", left=True), [Cell(text=state) for state in states]))
    rows = [
        Row(case, [cells[index] for _, cells in made], states[index]) for index, case in enumerate(run.cases)
    ]
    return [column for column, _ in made], rows


def _axis_cell(case: Case, name: str) -> Cell:
    value = case.axes.get(name, 1 if name == "again" else None)
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return Cell(text=words.axis_value(name, value), value=number)


def throughput_told(stats: list[Stats]) -> str | None:
    """The regime in which table, cards and charts tell throughput. Failed cases have none and no say."""
    rates = [
        {tag.partition("/")[2]: stat for tag, stat in own.items() if tag.startswith("throughput/")}
        for own in stats
    ]
    on_device = any("latency/device/median" in own for own in stats)
    return throughput_regime([own for own in rates if own], on_cpu=not on_device)


def _metrics(stats: list[Stats]) -> list[tuple[str, str, str]]:
    """(tag, title, regime or place) of the metric columns."""
    tags = {tag: stat for own in reversed(stats) for tag, stat in own.items()}
    regimes = [regime for regime in LATENCIES if f"latency/{regime}/median" in tags]
    regimes = regimes or [tag.split("/")[1] for tag in tags if tag.startswith("latency/")][:1]
    found = [(f"latency/{regime}/median", "latency", regime) for regime in regimes]
    if regimes and f"latency/{regimes[0]}/p95" in tags:
        found.insert(1, (f"latency/{regimes[0]}/p95", "p95", regimes[0]))
    rate = throughput_told(stats)
    if rate is not None:
        found.append((f"throughput/{rate}", "throughput", rate))
    place = next((p for p in ("device", "host") if f"memory/{p}/peak" in tags), None)
    if place is not None:
        found.append((f"memory/{place}/peak", "peak memory", place))
    energies = [*ENERGIES, *(tag for tag in tags if tag.startswith("energy/") and tags[tag].unit == "J")]
    energy = next((tag for tag in energies if tag in tags), None)
    if energy is not None:
        found.append((energy, tags[energy].title, ""))
    # What a benchmark of the user's said itself, of runs without timings of ours.
    own_words = dict.fromkeys(tag for own in stats for tag in own if tag.startswith("reported/"))
    reported = [tag for tag in own_words if tag.count("/") == 1] if not regimes else []
    found += [
        (tag, words.printable(tag.removeprefix("reported/")), "reported") for tag in reported[:_MOST_REPORTED]
    ]
    return found


def _lies_when(run: Run, tag: str) -> str:
    kind = {"latency": "latency", "throughput": "latency"}.get(tag.partition("/")[0], tag)
    return next((s.metric.lies_when for c in run.cases for s in c.series if s.metric.tag == kind), "")


def _cell(case: Case, stats: Stats, tag: str) -> Cell:
    stat = stats.get(tag)
    if stat is None:
        return Cell(text="-")
    if stat.value is None and tag.endswith("/p95"):
        return Cell(text=_needs(case, stat), note=stat.note)
    return Cell(
        text=show(stat.value, stat.unit, stat.ci95),
        interval=show_interval(stat.ci95, stat.value, stat.unit) if stat.ci95 and stat.value else "",
        margin=f"±{words.percent(stat.precision)}" if stat.precision is not None else "",
        value=stat.value,
        note=stat.note,
    )


def _needs(case: Case, stat: Stat) -> str:
    """How many more samples like these a percentile needs, by how many independent ones they are worth."""
    series = case.find("latency", stat.regime)
    if series is None:
        return "-"
    values = select(series).values
    worth = min(len(values), effective_size(values, 0.95))
    more = (
        math.ceil(len(values) * samples_needed(0.95) / worth) - len(values) if worth else samples_needed(0.95)
    )
    return f"needs {max(1, more):,} more"


def lines(run: Run, stats: list[Stats]) -> list[Line]:
    """What stands below the table: model, start-up, memory, disturbance, and metrics nobody foresaw."""
    found = [Line("model", text) for text in _models(run, stats)]
    found += [Line(*each) for each in _across.lines(run)]
    found += [Line("start-up", text) for text in _startups(run, stats)]
    found += _memory(run, stats)
    if hit := words.disturbed(run):
        found.append(Line("disturbed", hit))
    return found + _others(run, stats) + [Line("unmeasured", text) for text in words.unmeasured(run)]


def _models(run: Run, stats: list[Stats]) -> list[str]:
    found: dict[str, list[str]] = {}
    for target in dict.fromkeys(case.target for case in run.cases):
        own = [(c, s) for c, s in zip(run.cases, stats, strict=True) if c.target == target]
        if text := _model(run, own):
            found.setdefault(text, []).append(words.printable(target))
    several = len({case.target for case in run.cases}) > 1
    return [f"{', '.join(targets)}: {text}" if several else text for text, targets in found.items()]


def _model(run: Run, own: list[tuple[Case, Stats]]) -> str:
    parts = []
    case, stats = next(((c, s) for c, s in own if "params/all" in s or "flops" in s), own[0])
    if "params/all" in stats:
        every, trainable = stats["params/all"], stats.get("params/trainable")
        some = trainable is not None and trainable.value != every.value
        few = f" ({_shown(trainable)} trainable)" if some and trainable else ""
        parts.append(f"{_shown(every)} parameters{few}")
    work = [
        f"{show(s.value / case.batch, s.unit)}s" for t in ("macs", "flops") if (s := stats.get(t)) and s.value
    ]
    if work:
        parts.append(f"{' = '.join(work)} an item")
    rated = [(c, s) for c, s in own if "flops/achieved" in s and s["flops/achieved"].value]
    if rated:
        case, stats = max(rated, key=lambda pair: pair[1]["flops/achieved"].value or 0.0)
        achieved = stats["flops/achieved"]
        text = f"{_shown(achieved)} achieved ({achieved.regime}"
        text += f", {words.label(case, run, target=False)})" if len(own) > 1 else ")"
        if (share := stats.get("flops/share_of_peak")) is not None:
            text += f", {_shown(share)} of the measured peak"
        parts.append(text)
    return "; ".join(parts)


def _startups(run: Run, stats: list[Stats]) -> list[str]:
    return [f"{name}: {text}" if name else text for name, text in startups(run, stats, _startup_text).items()]


def startup(stats: Stats) -> list[Stat]:
    """The parts of a start in the order in which they happen; unknown ones last."""
    known = [stats[tag] for tag in STARTUP if tag in stats]
    return known + [s for tag, s in stats.items() if tag.startswith("time/") and tag not in STARTUP]


def startups(run: Run, stats: list[Stats], make: Callable[[Stats], T]) -> dict[str, T]:
    """What `make` makes of the start of each variant (its first case), by the variant's name."""
    found: dict[str, T] = {}
    several = len({case.target for case in run.cases}) > 1
    for case, own in zip(run.cases, stats, strict=True):
        parts = [words.printable(case.target)] if several else []
        name = ", ".join([*parts, *words.variant(case, run, batch=False)])
        if name not in found and startup(own):
            found[name] = make(own)
    return found


def _startup_text(stats: Stats) -> str:
    return ", ".join(
        f"{words.printable(stat.title)} {_shown(stat)}"
        + (f" ({words.printable(stat.note)})" if stat.note else "")
        for stat in startup(stats)
    )


def memory(stats: Stats) -> list[Stat]:
    """All that is known about the memory of a case, the device's first."""
    found = [stat for tag, stat in stats.items() if tag.startswith("memory/")]
    return sorted(found, key=lambda stat: not stat.tag.startswith("memory/device"))


def _memory(run: Run, stats: list[Stats]) -> list[Line]:
    """Where device memory goes, and what a call adds on the host; the peak is in the table."""
    found: dict[str, list[str]] = {}
    for case, own in zip(run.cases, stats, strict=True):
        place = "device" if "memory/device/peak" in own else "host"
        split = [stat for stat in memory(own) if stat.tag != f"memory/{place}/peak"]
        if split and (place == "device" or len(run.cases) == 1):
            text = ", ".join(f"{_memory_name(s.tag)} {_shown(s)}" for s in split)
            found.setdefault(text, []).append(words.label(case, run))
    several = len(run.cases) > 1
    return [Line("memory", f"{'; '.join(w)}: {text}" if several else text) for text, w in found.items()]


def _memory_name(tag: str) -> str:
    return words.printable(tag.removeprefix("memory/")).replace("/", " ")


def _others(run: Run, stats: list[Stats]) -> list[Line]:
    """Metrics that this report has no place for, shown as they are."""
    found: dict[str, list[tuple[Case, Stat]]] = {}
    columns = {tag for tag, _, _ in _metrics(stats)}
    for case, own in zip(run.cases, stats, strict=True):
        for tag, stat in own.items():
            if tag not in columns and not tag.startswith((*_SHOWN, *_EVIDENCE)):
                found.setdefault(tag, []).append((case, stat))
    several = len(run.cases) > 1
    return [
        Line(
            words.printable(tag),
            ", ".join(
                _with_interval(stat) + (f" ({words.label(case, run)})" if several else "")
                for case, stat in own
            ),
        )
        for tag, own in found.items()
    ]


def _with_interval(stat: Stat) -> str:
    text = words.printable(_shown(stat))
    if stat.ci95 is None or stat.value is None:
        return text
    return f"{text} {words.printable(show_interval(stat.ci95, stat.value, stat.unit))}"


def _shown(stat: Stat) -> str:
    return show(stat.value, stat.unit, stat.ci95)


def _against(each: Comparison, run: Run) -> Against:
    cases = {case.key: case for case in run.cases}
    candidate, baseline, shared = words.printable(each.candidate), words.printable(each.baseline), ""
    if each.candidate in cases and each.baseline in cases:
        candidate, baseline, shared = words.apart(cases[each.candidate], cases[each.baseline], run)
    text = words.printable(each.sentence) or compare.sentence(each.word, each.speedup, each.ci95, each.margin)
    lead = f"{shared}: " if shared else ""
    lead += "per item, " if each.metric.startswith("time per item") else ""
    return Against(f"{lead}{candidate} against {baseline}", candidate, baseline, text, each)
