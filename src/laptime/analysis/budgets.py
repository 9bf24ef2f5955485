"""Budgets: is a number within its limit? Its 95 % interval decides, not its value.

A budget is kept when the whole interval is within the limit, broken when the whole interval is beyond it, and
undecided in between, or when the number is invalid or cannot be told.
"""

from __future__ import annotations

from typing import Literal

from msgspec import structs

from laptime.analysis.stat import Stat
from laptime.analysis.summary import REPORTED, headline, main_throughput, summarize
from laptime.kit.quantity import amount, share
from laptime.kit.text import count
from laptime.kit.units import estimate, show, show_interval
from laptime.records.case import Case
from laptime.records.comparison import Comparison
from laptime.records.finding import Finding, Severity
from laptime.records.run import Run
from laptime.records.verdict import Held, Verdict

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
    ends = _ends(stat)
    why = doubt(case, stat)
    word: Held = "undecided"
    if ends and not why:
        low, high = ends
        within, beyond = (high <= limit, low > limit) if kind == "max" else (low >= limit, high < limit)
        word = "kept" if within else "broken" if beyond else "undecided"
    if stat.at_least and word == ("kept" if kind == "max" else "broken"):
        word, why = "undecided", stat.note
    value = estimate(stat.text, show_interval(stat.ci95, stat.value or 0.0, stat.unit))
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


def _ends(stat: Stat) -> tuple[float, float] | None:
    """The interval; of numbers that are counted or measured once, the value itself."""
    if stat.ci95 is not None:
        return stat.ci95
    sampled = stat.tag.startswith(("latency/", "throughput/", REPORTED)) and not stat.tag.endswith(
        ("/min", "/max")
    )
    return None if sampled or stat.value is None else (stat.value, stat.value)


def doubt(case: Case, stat: Stat) -> str:
    """Why nothing may be said of a number; "" when something may."""
    if case.trust == "invalid":
        bad = [check.sentence for check in case.checks if check.outcome == "fail"]
        return f"the number is invalid: {bad[0]}" if bad else "the number is invalid"
    if stat.value is None:
        return stat.note or "it could not be told"
    return "" if _ends(stat) else f"{count(stat.n, 'sample')} cannot carry an interval"


def _next(word: Held, case: Case) -> str:
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
    low, high = 1 / comparison.ci95[1], (1 / comparison.ci95[0] if comparison.ci95[0] > 0 else float("inf"))
    limit = 1 + (share(tolerance) if isinstance(tolerance, str) else tolerance)
    word: Held = "undecided"
    if high <= limit:
        word = "kept"
    elif low > limit and comparison.word == "slower":
        word = "broken"
    ratio = 1 / comparison.speedup
    # Where the interval alone would have decided, the comparison says why it may not.
    why = comparison.sentence.partition("; ")[2] if word == "undecided" and low > limit else ""
    ratio_text = f"{of} {ratio:.3f}" if of else f"takes {ratio:.3f} of the baseline's time"
    return Verdict(
        kind="regression",
        case=comparison.candidate,
        metric=comparison.metric,
        word=word,
        limit=limit,
        value=ratio,
        ci95=(low, high),
        sentence=f"{ratio_text} [{low:.3f}, {high:.3f}], allowed is {limit:.3f}"
        + (f"; {why}" if why else ""),
        next=_decided_by(comparison) if word == "undecided" and not of else "",
    )


def _decided_by(comparison: Comparison) -> str:
    if comparison.pairs:
        return "measure again with --budget 2m, or on a quieter machine"
    return "laptime check TARGET --against-rev REV   measures both, interleaved"


def with_verdicts(run: Run, verdicts: list[Verdict]) -> Run:
    """The run with its verdicts, as findings, too, so that every report shows them first."""
    return structs.replace(run, verdicts=verdicts, findings=[*map(finding, verdicts), *run.findings])


def finding(verdict: Verdict) -> Finding:
    """A verdict as a finding."""
    severity: dict[Held, Severity] = {"kept": "info", "undecided": "advice", "broken": "problem"}
    return Finding(
        kind=f"check/{verdict.kind}",
        severity=severity[verdict.word],
        sentence=f"{verdict.word}: {verdict.case}: {verdict.sentence}",
        next=verdict.next,
        cases=[verdict.case],
    )
