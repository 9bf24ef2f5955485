"""Budgets: is a number within its limit, and has it become worse than its baseline's by more than is allowed?

The judge is that of `records.quantity`; what is added here: a number that is invalid or cannot be told is
undecided, and a regression must also be worse at 99 %.

The unit of a change is the ratio of the two numbers, turned so that above 1 is worse. Its error comes from
both intervals, and for what varies from run to run from the spread between runs, too. A number that is
counted or measured once (a peak of memory, parameters, FLOPs) is taken as it is. Wrong if such a number
varies by itself."""

import math
import re
import shlex
from functools import partial
from typing import Literal

from msgspec import structs

from laptime.analysis import compare
from laptime.analysis.between_runs import Spread
from laptime.analysis.paired import MARGIN, Effect
from laptime.analysis.stat import Stat
from laptime.analysis.summary import QUANTILES, REPORTED, headline, main_throughput, summarize
from laptime.kit.errors import UsageError, unknown
from laptime.kit.text import closest, count
from laptime.kit.units import amount, estimate, share, show
from laptime.records.case import Case
from laptime.records.check import Finding, Severity, Verdict
from laptime.records.comparison import Comparison
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Quantity
from laptime.records.run import Run

TOLERANCE = 0.05  # share by which a case may be slower than its baseline unless somebody says otherwise


def find_stat(case: Case, name: str) -> Stat | None:
    """The statistic of a case that a limit names: latency, throughput, or a tag."""
    whole = {"latency": headline, "throughput": main_throughput}
    return whole[name](case) if name in whole else summarize(case).get(name)


def names(case: Case) -> list[str]:
    """Return the names that a limit can use."""
    return ["latency", "throughput", *summarize(case)]


def judge(case: Case, stat: Stat, kind: Literal["max", "min"], limit: str | float) -> Verdict:
    """Whether a statistic of a case is at most (max) or at least (min) a limit.
    limit: with a unit (`30 ms`), or a number in the statistic's own.
    Raises UsageError: the limit cannot be read."""
    limit = amount(limit, stat.unit) if isinstance(limit, str) else float(limit)
    why = doubt(case, stat)
    word = UNDECIDED
    if stat.quantity is not None and not why:
        word = stat.quantity.judge(limit, at_least=kind == "min")
    if stat.at_least and word is (KEPT if kind == "max" else BROKEN):
        word, why = UNDECIDED, stat.note
    value = estimate(stat.text, stat.interval_text)
    allowed = f"{'at most' if kind == 'max' else 'at least'} {show(limit, stat.unit)}"
    again = f"laptime bench {case.target} --precision 1%   and check again"
    return Verdict(
        kind=kind,
        case=case.key,
        metric=stat.tag,
        word=word,
        limit=limit,
        value=stat.value,
        ci95=stat.ci95,
        sentence=f"{stat.title} {value}, allowed is {allowed}" + (f"; {why}" if why else ""),
        next=again if word is UNDECIDED and not stat.at_least else "",
    )


def doubt(case: Case, stat: Stat) -> str:
    """Say why nothing may be said of a number; "" when something may."""
    if case.trust == "invalid":
        bad = [check.sentence for check in case.checks if check.outcome == "fail"]
        return f"the number is invalid: {bad[0]}" if bad else "the number is invalid"
    if stat.quantity is None:
        return stat.note or "it is not known"
    return "" if stat.quantity.exact or stat.ci95 else f"{count(stat.n, 'sample')} cannot carry an interval"


def regression(comparison: Comparison, tolerance: str | float = TOLERANCE, *, of: str = "") -> Verdict:
    """Whether a candidate takes no more than its baseline's time, times 1 + tolerance.

    tolerance: a share, `5%` or 0.05. of: how the sentence begins if the comparison is not one of times: `peak
    2, was 1: now over then`.

    Broken needs more than the interval beyond the limit: the comparison must have said `slower`, at its own,
    stricter level."""
    limit = 1 + (share(tolerance) if isinstance(tolerance, str) else tolerance)
    ratio = Quantity.of(comparison.speedup, comparison.ci95, comparison.pairs).invert()
    word, why = ratio.judge(limit), ""
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
        next=_suggest(comparison) if word == "undecided" and not of else "",
    )


def _suggest(comparison: Comparison) -> str:
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


# A number other than the latency against its baseline's.

_HALF = 1.96  # standard errors in half a 95 % interval


def metric_change(
    baseline: Case, candidate: Case, name: str, tolerance: str | float, between: Spread
) -> Verdict:
    """Whether a metric of the candidate is worse than the baseline's by no more than the tolerance.
    name: as `budgets.find_stat` takes it; the candidate has it, and it is known which direction is better.
    between: how far two runs of one program lie apart; none of it if both sides are of one run."""
    now, before = find_stat(candidate, name), find_stat(baseline, name)
    assert now is not None, name
    theirs = _why_not(baseline, before) if before else ""
    why = _why_not(candidate, now) or ("the baseline has no such number" if before is None else "")
    why = why or (f"baseline: {theirs}" if theirs else "")
    if why or before is None or now.value is None or before.value is None:
        judged = partial(Verdict, kind="regression", case=candidate.key, metric=now.tag)
        return judged(word=UNDECIDED, sentence=f"{now.title} {now.text}; {why}")
    worse = math.log(now.value / before.value) * (-1 if now.better == "higher" else 1)
    varies = now.ci95 is not None or before.ci95 is not None
    error = math.hypot(_error(now), _error(before), math.sqrt(2) * between.deviation if varies else 0.0)
    effect = Effect(worse, error, between.df, rounds=0, processes=1)
    word, ci95 = compare.judge(effect)
    comparison = Comparison(
        baseline=baseline.key,
        candidate=candidate.key,
        metric=now.tag,
        speedup=effect.speedup,
        ci95=ci95,
        word=word,
        margin=MARGIN,
        pairs=0,
    )
    turned = "then over now" if now.better == "higher" else "now over then"
    return regression(comparison, tolerance, of=f"{now.title} {now.text}, was {before.text}: {turned}")


def _why_not(case: Case, stat: Stat) -> str:
    """Say why a number can be no side of a ratio; "" when it can."""
    if why := doubt(case, stat):
        return why
    return "" if stat.value and stat.value > 0 else "it has no ratio: it is not above zero"


def _error(stat: Stat) -> float:
    """Standard error of the logarithm; 0 of a number without an interval."""
    if stat.ci95 is None or stat.ci95[0] <= 0:
        return 0.0
    return math.log(stat.ci95[1] / stat.ci95[0]) / 2 / _HALF


# What a limit can name, as far as that is known before anything is measured.

WHOLE = ("latency", "throughput")
"""The headline of a case, and its main throughput; also the first words of their statistics' tags."""
FAMILIES = (
    *WHOLE,
    *("buffers", "bytes", "energy", "evidence", "flops", "load", "macs", "memory", "params", "peak"),
    *("power", "step", "time", "timer", "tune", REPORTED.rstrip("/")),
)
"""First words of all tags. What stands behind them depends on the case."""
STATISTICS = (*QUANTILES, "mean", "std", "min", "max")


def refuse_unknown(name: str) -> None:
    """Refuse a name that no case has.
    Raises UsageError: it is such a name; the nearest right one is suggested."""
    family, *parts = name.split("/")
    if family not in FAMILIES:
        near = closest(name, WHOLE) or closest(family, FAMILIES)
        raise UsageError(
            f"there is no metric called {name!r}",
            why=f"names begin with {', '.join(FAMILIES)}",
            next=f"did you mean {near}?" if near else "laptime show --json   lists those of a run",
        )
    if family == "latency" and len(parts) == 2 and parts[1] not in STATISTICS:
        raise unknown("statistic of latency", parts[1], STATISTICS, example="latency/isolated/p95")
