"""Every sample of every case: drawn over time with its distribution beside it, and each number in a table."""

import statistics
from functools import partial

from laptime.analysis.stat import Stat
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import Series
from laptime.reports import _words as words
from laptime.reports.document import Block, Cell, Chart, Folded, Group, Section, Table
from laptime.reports.documents.bench import sample_chart
from laptime.reports.documents.bench.table import Stats, interval_text, lies_when, metric_of
from laptime.reports.fields import Field, tabulate

POINTS = 6000  # samples drawn on a whole page, about; a case gets its share of them, at most a third
FAR = 2.0  # ratio of medians from which compared cases have an axis each


def section(run: Run, stats: list[Stats]) -> Section:
    """A group a case."""
    number = sum(bool(s.samples) for c in run.cases for s in c.series if s.metric.tag == "latency")
    most = min(POINTS // 3, max(150, POINTS // max(1, number)))
    note = (
        "Every sample is kept. The line is the median, the band its 95 % interval; both come from the "
        "samples drawn as dots, as far as there are enough of them."
    )
    note += " Compared cases have one axis, unless one takes twice as long." if run.comparisons else ""
    groups = [
        Group(words.label(case, run), _case(run, index, each, most))
        for index, (case, each) in enumerate(zip(run.cases, stats, strict=True))
        if each
    ]
    return Section("samples", "Samples", groups, note=note, detail="page")


def _case(run: Run, index: int, stats: Stats, most: int) -> list[Block]:
    """The first regime is seen at once, the others are folded away."""
    case = run.cases[index]
    timed = [series for series in case.series if series.metric.tag == "latency" and series.samples]
    timed.sort(key=lambda series: series.regime != "isolated")
    charts = [
        Chart(
            f"Latency in {sample_chart.unit(beside)[1]}, {series.regime or ''}",
            partial(sample_chart.SampleChart, series, stats, most=most, beside=beside),
            note=series.note,
        )
        for series in timed
        for beside in [_beside(run, case, series)]
    ]
    rest = Folded(", ".join(series.regime or "" for series in timed[1:]), charts[1:])
    return [*charts[:1], rest, Folded("All numbers of this case", [_numbers(index, case, stats)])]


def _beside(run: Run, case: Case, series: Series) -> list[Series]:
    """Return the series on the same axis: all compared ones, unless their differences hide each one's own."""
    keys = next((group for group in _group_keys(run) if case.key in group), {case.key})
    found = [case.find(series.metric.tag, series.regime) for case in run.cases if case.key in keys]
    timed = [each for each in found if each is not None and each.samples]
    medians = [statistics.median(each.samples) for each in timed]
    return timed if max(medians) <= FAR * min(medians) else [series]


def _group_keys(run: Run) -> list[set[str]]:
    """Keys of cases that comparisons hold together, of one baseline for example."""
    groups: list[set[str]] = []
    for comparison in run.comparisons:
        pair = {comparison.baseline, comparison.candidate}
        whole = pair.union(*(group for group in groups if group & pair))
        groups = [*(group for group in groups if not group & pair), whole]
    return groups


def _numbers(index: int, case: Case, stats: Stats) -> Table:
    def name_stat(stat: Stat) -> Cell:
        metric = metric_of([case], stat.tag)
        meaning = (metric.meaning, lies_when(metric)) if metric else ()
        return Cell(stat.tag, note=" ".join(filter(None, meaning)))

    fields = [
        Field("metric", name_stat, "code"),
        Field("value", lambda stat: Cell(stat.text, stat.value), "number"),
        Field("95 % interval", lambda stat: Cell(interval_text(stat)), "number"),
        Field("samples", "n", "count"),
        Field("note", "note"),
    ]
    return tabulate(f"number-{index}", fields, stats.values(), row=lambda stat: {"key": stat.tag})
