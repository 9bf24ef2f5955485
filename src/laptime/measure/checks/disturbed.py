"""How much of the evidence was hit from outside?"""

from laptime.analysis.evidence import find_unexplained, select
from laptime.analysis.summary import headline, main_throughput
from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.records.series import Regime

MANY = 0.5  # share of disturbed samples from which even the undisturbed ones are suspect
UNEXPLAINED = 0.05  # share of the mean from which the excluded samples are not only those that others hit
QUEUE = 0.02  # the same for paced calls: each one delays those behind it, so none can be excluded
_CAUSES = {
    "waited": "waited for a CPU that other programs used",
    "stolen": "lost CPU time to the hypervisor",
    "throttled": "were stopped by the container's CPU quota",
    "clock": "ran while a processor was slower than at its best",
}


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note disturbed samples; warn when they are the majority or could not be excluded.

    The regimes that the headline and the throughput come from decide; what happened in another is only noted.
    """
    stats = (headline(case), main_throughput(case))
    shown = [stat.regime for stat in stats if stat is not None]
    series_of = {
        series.regime: series
        for series in case.series
        if series.metric.tag == "latency" and series.label and series.samples
    }
    evidence_of = {regime: select(series) for regime, series in series_of.items()}
    hit = {regime: evidence for regime, evidence in evidence_of.items() if evidence.disturbed > 0}
    regime = max(hit, key=lambda name: (name in shown, hit[name].disturbed), default=None)
    if regime is None:
        return None
    worst = hit[regime]
    causes = [words for name, words in _CAUSES.items() if worst.causes.get(name)]
    consequence = {
        "undisturbed": "they are excluded",
        "few": f"they are excluded, which leaves {len(worst.values)}",
    }.get(worst.basis, "too few others to exclude them")
    serious = worst.disturbed > MANY or worst.basis != "undisturbed"
    if regime == Regime.PACED:
        consequence = "those behind them in the queue waited, too"
        serious = worst.disturbed > QUEUE
    elif worst.basis != "settled" and (more := find_unexplained(case, series_of[regime])) > UNEXPLAINED:
        longer = f"{1 + more:.2g} times as long" if more > 1 else f"{more:.0%} longer"
        consequence = f"they are excluded, but were slow anyway: with them the mean is {longer}"
        serious = True
    samples = "samples" if shown and regime == shown[0] else f"{regime} samples"
    return Check(
        "disturbed",
        "warn" if serious and regime in shown else "note",
        f"{worst.disturbed:.0%} of the {samples} {' or '.join(causes)}; {consequence}",
        "laptime doctor   (shows who else uses the machine)",
    )
