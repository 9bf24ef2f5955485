"""Is the interval as narrow as asked for?"""

import math

from laptime.analysis.evidence import MIN_SAMPLES
from laptime.analysis.stat import Stat
from laptime.analysis.steady import largest_late_step
from laptime.analysis.summary import main_throughput, median_of
from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.records.series import Regime

TOLERATED = 0.05  # Half-width up to which a number is not noisy although it missed the preset's precision


def list_printed(case: Case) -> list[Stat]:
    """The statistics whose precision decides: the median of every latency regime, and the throughput."""
    stats = [
        stat
        for series in case.series
        if series.metric.tag == "latency" and series.samples and series.regime != Regime.SATURATED
        if (stat := median_of(case, series)).value is not None
    ]
    rate = main_throughput(case)
    return stats if rate is None else [*stats, rate]


def find_widest(case: Case) -> float:
    """Half-width of the widest printed interval, as a share of its value; inf when one does not exist yet."""
    shares = [stat.precision for stat in list_printed(case)]
    if not shares:
        return math.inf
    return max(math.inf if share is None else share for share in shares)


def is_within(case: Case, precision: float) -> bool:
    """Whether more time would tell nothing: intervals are as narrow as this share, the level has settled."""
    return find_widest(case) <= precision and not largest_late_step(case)


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Fail without any interval for want of samples; warn when an explicit wish was missed, or above 5 %."""
    if not list_printed(case):
        return None
    setting = plan.get("precision", Setting(value=0.02))
    half = find_widest(case)
    if half <= setting.value:
        sentence = f"every printed interval is within ±{half:.1%} (asked ±{setting.value:.1%})"
        return Check("precision", "ok", sentence)
    if math.isinf(half):
        fewest = min(stat.n for stat in list_printed(case))
        if fewest < MIN_SAMPLES:
            sentence = f"too few samples for an interval ({fewest} of the {MIN_SAMPLES} that a median needs)"
            return Check("precision", "fail", sentence, _longer(plan))
        sentence = f"{fewest} samples that repeat each other are too few for an interval"
    else:
        asked = f", asked was ±{setting.value:.1%}" if setting.value else ""
        why = "it was interrupted" if case.status == "interrupted" else "time was up"
        sentence = f"the widest printed interval is ±{half:.1%}{asked}: {why}"
    missed = math.isinf(half) or setting.origin in ("flag", "argument") or half > TOLERATED
    return Check("precision", "warn" if missed else "note", sentence, _longer(plan))


def _longer(plan: dict[str, Setting]) -> str:
    budget = plan.get("budget")
    more = 30 if budget is None else max(30, round(4 * float(budget.value)))
    return f"--budget {more}s"
