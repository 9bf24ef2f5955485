"""The table of cases, and the best of each column as a card.

Its columns are those that a run can fill, and that differ from row to row."""

import math
from collections.abc import Sequence
from functools import partial

from laptime.analysis.evidence import select
from laptime.analysis.quantiles import effective_size, samples_needed
from laptime.analysis.stat import Stat
from laptime.analysis.summary import REPORTED, throughput_regimes
from laptime.kit.units import show_interval
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import HEADLINE_ORDER, Metric
from laptime.reports import _words as words
from laptime.reports.document import Card, Cell, Table
from laptime.reports.fields import Field, tabulate

LATENCIES = tuple(regime.value for regime in HEADLINE_ORDER if regime.times_calls)
ENERGIES = ("energy/item/net", "energy/item/gross", "energy/item", "energy/net", "energy/gross", "energy")
RATE = "throughput"  # in place of a tag: the throughput of each case, whatever its regime
STARTS = (("time/cold_start", "cold start", ""), ("time/first_call", "first call", ""))
"""Columns beside the metrics if several frameworks are compared: tag, title, regime."""
SPARE = ("latency/isolated/p95", RATE)  # tags of columns that a narrow terminal can do without beside those
SPARE_OF_SUITES = (RATE, "latency/isolated/p95", "memory/")
"""The same where benchmarks stand one below the other; the last goes first."""
_MOST_REPORTED = 4
Stats = dict[str, Stat]


def headline(stats: Stats) -> Stat | None:
    """The one number a case is known by, as `summary.headline`, from numbers already made."""
    return next((stats[tag] for r in HEADLINE_ORDER if (tag := f"latency/{r}/median") in stats), None)


def interval_text(stat: Stat) -> str:
    """The 95 % interval, `[25.9, 26.8] ms`; empty if none is known."""
    return show_interval(stat.ci95, stat.value, stat.unit) if stat.ci95 and stat.value else ""


def table(run: Run, stats: list[Stats]) -> Table:
    """One row a case; only the columns that this run can fill, and that differ from row to row."""
    states = [case.trust if case.status == "ok" else case.status for case in run.cases]
    has_states = len({run.trust, *states}) > 1
    place = {id(case): index for index, case in enumerate(run.cases)}
    marks = {of: Cell(states[at], tone=states[at]) for of, at in place.items()}
    fields = [
        *_names(run),
        *_numbers(run, stats, place),
        bool(run.verdicts) and Field("checks", partial(_find_worst, run)),
        has_states and Field("verdict", lambda case: marks[id(case)]),
    ]
    cases = run.cases if any(stats) and any(fields) else []
    tones = {of: mark.tone * has_states for of, mark in marks.items()}
    return tabulate("case", fields, cases, row=lambda case: {"key": case.key, "tone": tones[id(case)]})


def _find_worst(run: Run, case: Case) -> Cell:
    """The worst word of what was asked of a case."""
    words = {verdict.word for verdict in run.verdicts if verdict.case == case.key}
    return Cell(next((word for word in ("broken", "undecided", "kept") if word in words), "-"))


def _names(run: Run) -> list[Field]:
    fields = [Field("target", lambda case: Cell(case.target))] * (len({c.target for c in run.cases}) > 1)
    for name in words.varying(run):
        of = partial(_axis_cell, name=name)
        is_numeric = all(of(case).value is not None for case in run.cases)
        title = "copy" if name == "again" else words.printable(name).replace("_", " ")
        fields.append(Field(title, of, "number" if is_numeric else "text"))
    return fields


def _numbers(run: Run, stats: list[Stats], place: dict[int, int]) -> list[Field]:
    """Metrics; across frameworks also the word of each case against its baseline."""
    fields = list[Field]()
    is_across = len({str(case.axes.get("backend", "torch")) for case in run.cases}) > 1
    for index, (tag, title, regime) in enumerate([*metrics(stats), *(STARTS if is_across else ())]):
        priority = 1 if is_across and tag.startswith(SPARE) else 0
        if run.verb == "suite":
            priority = next((at for at, spare in enumerate(SPARE_OF_SUITES, 1) if tag.startswith(spare)), 0)
        note, named = lies_when(metric_of(run.cases, tag)), tag == RATE and not regime
        shown = numbers_of(stats, tag)
        of = lambda case, shown=shown, named=named: _cell(case, shown[place[id(case)]], named=named)  # noqa: E731
        fields.append(Field(title, of, "number", note, regime=regime, priority=priority))
        if is_across and index == 0:
            fields.append(Field("compared", partial(_against_first, run)))
    return fields


def _against_first(run: Run, case: Case) -> Cell:
    """The word of a case against its baseline, with the factor: `faster 1.52x`."""
    words = dict.fromkeys((comparison.baseline for comparison in run.comparisons), "baseline")
    for each in run.comparisons:
        factor = 1 / each.speedup if each.word == "slower" else each.speedup
        is_known = each.word in ("faster", "slower")
        words[each.candidate] = f"{each.word} {factor:.2f}x" if is_known else each.word
    return Cell(words.get(case.key, "-"))


def _axis_cell(case: Case, name: str) -> Cell:
    value = case.axes.get(name, 1 if name == "again" else None)
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    return Cell(words.axis_value(name, value), number)


def throughputs_of(stats: list[Stats]) -> list[Stat | None]:
    """The throughput of each case in table, cards and charts; one of failed cases is None."""
    prefix = "throughput/"
    rates = [{t.removeprefix(prefix): s for t, s in stat.items() if t.startswith(prefix)} for stat in stats]
    on_device = any("latency/device/median" in numbers for numbers in stats)
    regimes = throughput_regimes(rates, on_cpu=not on_device)
    return [each[regime] if regime else None for each, regime in zip(rates, regimes, strict=True)]


def numbers_of(stats: list[Stats], tag: str) -> list[Stat | None]:
    """One statistic of each case; of `RATE` in the regime that says most."""
    return throughputs_of(stats) if tag == RATE else [numbers.get(tag) for numbers in stats]


def regime_of(rates: Sequence[Stat | None]) -> str | None:
    """The regime that all of these share; empty if they differ, None if there is none."""
    regimes = {rate.regime or "" for rate in rates if rate is not None}
    return regimes.pop() if len(regimes) == 1 else "" if regimes else None


def metrics(stats: list[Stats]) -> list[tuple[str, str, str]]:
    """(tag, title, regime or place) of the metric columns."""
    tags = {tag: stat for numbers in reversed(stats) for tag, stat in numbers.items()}
    regimes = [regime for regime in LATENCIES if f"latency/{regime}/median" in tags]
    regimes = regimes or [tag.split("/")[1] for tag in tags if tag.startswith("latency/")][:1]
    columns = [(f"latency/{regime}/median", "latency", regime) for regime in regimes]
    if regimes and f"latency/{regimes[0]}/p95" in tags:
        columns.insert(1, (f"latency/{regimes[0]}/p95", "p95", regimes[0]))
    rate = regime_of(throughputs_of(stats))
    if rate is not None:
        columns.append((RATE, "throughput", rate))
    place = next((p for p in ("device", "host") if f"memory/{p}/peak" in tags), None)
    if place is not None:
        columns.append((f"memory/{place}/peak", "peak memory", place))
    energies = [*ENERGIES, *(tag for tag in tags if tag.startswith("energy/") and tags[tag].unit == "J")]
    energy = next((tag for tag in energies if tag in tags), None)
    if energy is not None:
        columns.append((energy, tags[energy].title, ""))
    # What a user's benchmark reported itself, in runs without timings of laptime's.
    names = dict.fromkeys(tag for numbers in stats for tag in numbers if tag.startswith(REPORTED))
    reported = [tag for tag in names if tag.count("/") == 1] if not regimes else []
    for tag in reported[:_MOST_REPORTED]:
        # One trial's, or the mean of how many; the note of the number says which mean.
        kinds = {numbers[tag].note.removeprefix("geometric ") for numbers in stats if tag in numbers}
        over = kinds.pop() if len(kinds) == 1 else "means of trials"
        columns.append((tag, words.printable(tag.removeprefix(REPORTED)), over))
    return columns


def metric_of(cases: Sequence[Case], tag: str) -> Metric | None:
    """The metric behind a statistic; None if it was derived from others."""
    kind = "latency" if tag.startswith(("latency/", RATE)) else tag
    return next((s.metric for case in cases for s in case.series if s.metric.tag == kind), None)


def lies_when(metric: Metric | None) -> str:
    """When not to believe it; empty if nothing is known."""
    return f"Lies when: {metric.lies_when}" if metric and metric.lies_when else ""


def _cell(case: Case, stat: Stat | None, *, named: bool) -> Cell:
    """A number; with its regime if the head of the column names none."""
    if stat is None:
        return Cell("-")
    if stat.value is None and stat.tag.endswith("/p95"):
        return Cell(_needs(case, stat), note=stat.note)
    text = f"{stat.text} {stat.regime}" if named else stat.text
    is_closed = stat.precision is not None and math.isfinite(stat.precision)
    margin = f"±{words.percent(stat.precision or 0.0)}" if is_closed else ""
    return Cell(text, stat.value, interval_text(stat), margin, note=stat.note)


def _needs(case: Case, stat: Stat) -> str:
    """How many more samples like these a percentile needs, by how many independent ones they are worth."""
    series = case.find("latency", stat.regime)
    if series is None:
        return "-"
    values = select(series).values
    worth = min(len(values), effective_size(values, 0.95))
    needed = samples_needed(0.95)
    more = math.ceil(len(values) * needed / worth) - len(values) if worth else needed
    return f"needs {max(1, more):,} more"


def cards(run: Run, stats: list[Stats]) -> list[Card]:
    """At most six."""
    heads = [stat for numbers in stats if (stat := headline(numbers)) and stat.value is not None]
    regime = heads[0].regime if heads else ""
    wanted = [
        f"latency/{regime}/median",
        RATE,
        "flops/share_of_peak",
        "memory/device/peak",
        "memory/host/peak",
        *(tag for numbers in stats[:1] for tag in numbers if tag.startswith("energy/")),
    ]
    shown: list[Card] = []
    for tag in wanted:
        pairs = zip(run.cases, numbers_of(stats, tag), strict=True)
        told = [(case, stat) for case, stat in pairs if stat is not None and stat.value is not None]
        # The best of all is valid, and not of disturbed calls; any one if there are none.
        valid = [pair for pair in told if pair[0].trust != "invalid"] or told
        if measured := [pair for pair in valid if not pair[1].crowded] or valid:
            choose = max if _is_top(measured[0][1]) else min
            case, stat = choose(measured, key=lambda pair: pair[1].value or 0.0)
            title = stat.title
            if len(measured) > 1 and stat.better != "none":
                title = f"{'highest' if _is_top(stat) else 'lowest'} {title}"
            conditions = [stat.regime] if stat.regime else []
            conditions += [words.label(case, run)] if len(run.cases) > 1 else []
            low, high = stat.ci95 or (math.inf, -math.inf)
            near = [of for of, each in measured if each.ci95 and each.ci95[0] <= high and low <= each.ci95[1]]
            conditions += [f"{words.label(of, run)} is about the same" for of in near if of is not case][:2]
            conditions += [held] if (held := words.name_held(run)) else []
            shown.append(Card(title, stat.text, interval=interval_text(stat), note=", ".join(conditions)))
    return shown[:6]


def _is_top(stat: Stat) -> bool:
    """Whether the highest of several is the one to tell; memory is wanted low, but has to be there."""
    return stat.better == "higher" or stat.tag.startswith("memory/")
