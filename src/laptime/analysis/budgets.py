"""Budgets: is a number within its limit? Its 95 % interval decides, not its value.

A budget is kept when the whole interval is within the limit, broken when the whole interval is beyond it, and
undecided in between, or when the number is invalid or cannot be told.
"""

from __future__ import annotations

import math
import re
import shlex
from typing import Literal

from msgspec import structs

from laptime.analysis.stat import Stat
from laptime.analysis.summary import headline, main_throughput, summarize
from laptime.kit.text import count
from laptime.kit.units import amount, estimate, share, show
from laptime.records.case import Case
from laptime.records.check import Finding, Severity, Verdict
from laptime.records.comparison import Comparison
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement, Quantity
from laptime.records.run import Run

TOLERANCE = 0.05
"""Share by which a case may be slower than its baseline unless somebody says otherwise."""


def named(case: Case, name: str) -> Stat | None:
    """The statistic of a case that a limit names: latency, throughput, or a tag."""
    whole = {"latency": headline, "throughput": main_throughput}
    return whole[name](case) if name in whole else summarize(case).get(name)


def names(case: Case) -> list[str]:
    """What a limit can name."""
    return ["latency", "throughput", *summarize(case)]


def judge(case: Case, stat: Stat, kind: Literal["max", "min"], limit: str | float) -> Verdict:
    """Whether a statistic of a case is at most (max) or at least (min) a limit.

    Args:
        limit: with a unit (`30 ms`), or a number in the statistic's own.

    Raises:
        UsageError: the limit cannot be read.
    """
    limit = amount(limit, stat.unit) if isinstance(limit, str) else float(limit)
    why = doubt(case, stat)
    word = UNDECIDED
    if stat.quantity is not None and not why:
        word = stat.quantity.judged(limit, at_least=kind == "min")
    if stat.at_least and word is (KEPT if kind == "max" else BROKEN):
        word, why = UNDECIDED, stat.note
    value = estimate(stat.text, stat.interval_text)
    allowed = f"{'at most' if kind == 'max' else 'at least'} {show(limit, stat.unit)}"
    return Verdict(
        kind=kind,
        case=case.key,
        metric=stat.tag,
        word=word,
        limit=limit,
        value=stat.value,
        ci95=stat.ci95,
        sentence=f"{stat.title} {value}, allowed is {allowed}" + (f"; {why}" if why else ""),
        next="" if stat.at_least else _next(word, case),
    )


def doubt(case: Case, stat: Stat) -> str:
    """Why nothing may be said of a number; "" when something may."""
    if case.trust == "invalid":
        bad = [check.sentence for check in case.checks if check.outcome == "fail"]
        return f"the number is invalid: {bad[0]}" if bad else "the number is invalid"
    if stat.quantity is None:
        return stat.note or "it could not be told"
    return "" if stat.quantity.exact or stat.ci95 else f"{count(stat.n, 'sample')} cannot carry an interval"


def _next(word: Judgement, case: Case) -> str:
    if word == "undecided":
        return f"laptime bench {case.target} --precision 1%   and check again"
    return ""


def regression(comparison: Comparison, tolerance: str | float = TOLERANCE, *, of: str = "") -> Verdict:
    """Whether a candidate takes no more than its baseline's time, times 1 + tolerance.

    Args:
        tolerance: a share, `5%` or 0.05.
        of: how the sentence begins where the comparison is not one of times: `peak 2, was 1: now over then`.

    Broken needs more than the interval beyond the limit: the comparison must have said `slower`, at its own,
    stricter level.
    """
    limit = 1 + (share(tolerance) if isinstance(tolerance, str) else tolerance)
    ratio = Quantity.of(comparison.speedup, comparison.ci95, comparison.pairs).inverted()
    word, why = ratio.judged(limit), ""
    if word is BROKEN and comparison.word != "slower":
        # The interval alone would have decided; the comparison says why it may not.
        word, why = UNDECIDED, comparison.sentence.partition("; ")[2]
    low, high = ratio.interval or (0.0, math.inf)
    ratio_text = f"{of} {ratio.value:.3f}" if of else f"takes {ratio.value:.3f} of the baseline's time"
    return Verdict(
        kind="regression",
        case=comparison.candidate,
        metric=comparison.metric,
        word=word,
        limit=limit,
        value=ratio.value,
        ci95=ratio.interval,
        sentence=f"{ratio_text} [{low:.3f}, {high:.3f}], allowed is {limit:.3f}"
        + (f"; {why}" if why else ""),
        next=_decided_by(comparison) if word == "undecided" and not of else "",
    )


def _decided_by(comparison: Comparison) -> str:
    if comparison.pairs:
        return "measure again with --budget 2m, or on a quieter machine"
    target = re.split(r"/(?=\w+=)", comparison.candidate, maxsplit=1)[0]
    return f"laptime check {shlex.quote(target)} --against-rev HEAD~1   measures both, interleaved"


def with_verdicts(run: Run, verdicts: list[Verdict]) -> Run:
    """The run with its verdicts, as findings, too, so that every report shows them first."""
    return structs.replace(run, verdicts=verdicts, findings=[*map(finding, verdicts), *run.findings])


def finding(verdict: Verdict) -> Finding:
    """A verdict as a finding."""
    severity: dict[str, Severity] = {"kept": "info", "undecided": "advice", "broken": "problem"}
    return Finding(
        kind=f"check/{verdict.kind}",
        severity=severity[verdict.word],
        sentence=f"{verdict.word}: {verdict.case}: {verdict.sentence}",
        next=verdict.next,
        cases=[verdict.case],
    )
