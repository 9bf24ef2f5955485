"""What a table of several frameworks shows besides: a word for each row, and what a start costs."""

from __future__ import annotations

from laptime.records.comparison import Comparison
from laptime.records.run import Run
from laptime.reports._words import label, printable

COLUMNS = (("time/cold_start", "cold start", ""), ("time/first_call", "first call", ""))
"""Metric columns: tag, title, regime."""

SPARE = ("latency/isolated/p95", "throughput/")
"""Tags of columns that a narrow terminal can do without."""


def is_across(run: Run) -> bool:
    """Whether more than one framework was measured."""
    return len({str(case.axes.get("backend", "torch")) for case in run.cases}) > 1


def against_first(run: Run) -> list[str]:
    """The word of each case against its baseline, with the factor: `faster 1.52x`."""
    words = {each.candidate: _word(each) for each in run.comparisons}
    baselines = {each.baseline for each in run.comparisons}
    return [words.get(case.key, "baseline" if case.key in baselines else "-") for case in run.cases]


def lines(run: Run) -> list[tuple[str, str]]:
    """Before any word on speed: whether it is one model at all, and whether outputs agree, by topic.

    Outputs that do not agree are reasons against the numbers, and stand there.
    """
    models = [("model", printable(each.sentence)) for each in run.findings if each.kind.startswith("model/")]
    checked = ((case, each) for case in run.cases for each in case.checks if each.name == "agreement")
    return models + [
        ("outputs", f"{label(case, run)}: {printable(each.sentence)}")
        for case, each in checked
        if each.outcome == "ok"
    ]


def _word(each: Comparison) -> str:
    if each.word == "faster":
        return f"faster {each.speedup:.2f}x"
    return f"slower {1 / each.speedup:.2f}x" if each.word == "slower" else each.word
