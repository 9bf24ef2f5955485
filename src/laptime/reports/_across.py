"""What a table of several frameworks shows besides: a word for each row, and what a start costs."""

from __future__ import annotations

from laptime.records.comparison import Comparison
from laptime.records.run import Run

COLUMNS = (("time/cold_start", "cold start", ""), ("time/first_call", "first call", ""))
"""Metric columns: tag, title, regime."""

EXTRA = ("latency/isolated/p95", "throughput/")
"""Tags of columns that a narrow terminal can do without."""


def is_across(run: Run) -> bool:
    """Whether more than one framework was measured."""
    return len({str(case.axes.get("backend", "torch")) for case in run.cases}) > 1


def against_first(run: Run) -> list[str]:
    """The word of each case against its baseline, with the factor: `faster 1.52x`."""
    found = {each.candidate: _word(each) for each in run.comparisons}
    baselines = {each.baseline for each in run.comparisons}
    return [found.get(case.key, "baseline" if case.key in baselines else "-") for case in run.cases]


def _word(each: Comparison) -> str:
    if each.word == "faster":
        return f"faster {each.speedup:.2f}x"
    return f"slower {1 / each.speedup:.2f}x" if each.word == "slower" else each.word
