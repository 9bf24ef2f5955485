"""Has a number other than the latency become worse than its baseline's, by more than is allowed?

The unit is the ratio of the two, turned so that above 1 is worse. Its error comes from both intervals, and
for what varies from run to run from the spread between runs, too. A number that is counted or measured once
(a peak of memory, parameters, FLOPs) is taken as it is. Wrong where such a number varies by itself.
"""

from __future__ import annotations

import math

from laptime.analysis.between_runs import Spread
from laptime.analysis.budgets import doubt, named, regression
from laptime.analysis.compare import judge
from laptime.analysis.paired import MARGIN, Effect
from laptime.analysis.stat import Stat
from laptime.records.case import Case
from laptime.records.check import Verdict
from laptime.records.comparison import Comparison
from laptime.records.quantity import UNDECIDED

_HALF = 1.96
"""Standard errors in half a 95 % interval."""


def metric_change(
    baseline: Case, candidate: Case, name: str, tolerance: str | float, between: Spread
) -> Verdict:
    """Whether a metric of the candidate is worse than the baseline's by no more than the tolerance.

    Args:
        name: as `budgets.named` takes it; the candidate has it, and it is known which direction is better.
        between: how far two runs of one program lie apart; none of it where both sides are of one run.
    """
    now, before = named(candidate, name), named(baseline, name)
    assert now is not None, name
    why = _why_not(candidate, now) or ("the baseline has no such number" if before is None else "")
    why = why or (f"baseline: {_why_not(baseline, before)}" if before and _why_not(baseline, before) else "")
    if why or before is None or now.value is None or before.value is None:
        sentence = f"{now.title} {now.text}; {why}"
        return Verdict(
            kind="regression", case=candidate.key, metric=now.tag, word=UNDECIDED, sentence=sentence
        )
    worse = math.log(now.value / before.value) * (-1 if now.better == "higher" else 1)
    varies = now.ci95 is not None or before.ci95 is not None
    error = math.hypot(_error(now), _error(before), math.sqrt(2) * between.deviation if varies else 0.0)
    effect = Effect(worse, error, between.df, rounds=0, processes=1)
    word, ci95 = judge(effect)
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
    """Why a number can be no side of a ratio; "" when it can."""
    if why := doubt(case, stat):
        return why
    return "" if stat.value and stat.value > 0 else "it has no ratio: it is not above zero"


def _error(stat: Stat) -> float:
    """Standard error of the logarithm; 0 of a number without an interval."""
    if stat.ci95 is None or stat.ci95[0] <= 0:
        return 0.0
    return math.log(stat.ci95[1] / stat.ci95[0]) / 2 / _HALF
