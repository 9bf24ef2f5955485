"""Which samples a statistic may use, decided by what is known about them and never by their size; and how
much of each sample's time the outside took, from the evidence beside it."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.analysis.quantiles import Floats, median, quantile
from laptime.records.case import Case
from laptime.records.plan import TODAY, Constants
from laptime.records.series import DISTURBED, EXCLUDED, UNSETTLED, Label, Regime, Series

MIN_SAMPLES = 6  # below six samples a median has no 95 % interval
CROWDED = 0.75  # share of disturbed samples from which the rest are suspect, too
Basis = Literal["undisturbed", "few", "settled", "all"]


class Evidence(NamedTuple):
    """The samples of one series that statistics use, and why these."""

    values: Floats  # samples the statistics use, shape (m,)
    parts: list[Floats]  # the same, one array a process
    positions: NDArray[np.intp]  # their places in the series
    settled: NDArray[np.intp]  # places of all settled samples, disturbed ones too
    # undisturbed (warm-up and disturbed ones excluded), few (the same, but too few for an interval of their
    # own: it comes from the settled ones), settled (hardly any undisturbed ones: the disturbed are in it),
    # all (nothing else left)
    basis: Basis
    disturbed: float  # share of the settled samples with an outside cause
    causes: dict[str, int]  # number of settled samples by label word
    warm_up: int  # number of warm-up samples

    @property
    def crowded(self) -> bool:
        """Whether what comes of it says more about other programs than about this one."""
        return self.basis == "settled" or self.disturbed > CROWDED


def select(series: Series, constants: Constants = TODAY) -> Evidence:
    """The samples that the headline of a series comes from."""
    values = np.asarray(series.samples, dtype=float)
    n = len(values)
    label = np.asarray(series.label or [0] * n, dtype=int)
    not_settled = (label & int(UNSETTLED)) != 0
    settled = np.nonzero(~not_settled)[0]
    hit = int(((label[settled] & int(DISTURBED)) != 0).sum())
    # Behind a disturbed call others stand in the queue: without it, only the busiest minutes would go.
    clean = settled if series.regime == Regime.PACED else np.nonzero((label & int(EXCLUDED)) == 0)[0]
    seen = int(np.bitwise_or.reduce(label[settled]))
    causes = {
        flag.words[0]: int((label[settled] & int(flag) != 0).sum()) for flag in Label if int(flag) & seen
    }
    if len(clean) >= min(MIN_SAMPLES, max(1, len(settled))):
        positions, basis = clean, "settled" if hit and series.regime == Regime.PACED else "undisturbed"
    elif len(clean) >= constants.few_samples:
        positions, basis = clean, "few"
    elif len(settled):
        positions, basis = settled, "settled"
    else:
        positions, basis = np.arange(n), "all"
    process = np.asarray(series.process or [0] * n)[positions]
    return Evidence(
        values=(told := values[positions]),
        parts=[told[process == number] for number in sorted({*process.tolist()})],
        positions=positions,
        settled=settled,
        basis=basis,  # type: ignore[arg-type]
        disturbed=hit / len(settled) if len(settled) else 0.0,
        causes=causes,
        warm_up=int((label & int(Label.WARM_UP) != 0).sum()),
    )


# Lost time.

BEST = 0.1  # quantile of the ruler that is its best: neighbours of a guest may be there for most of the time
SLOW_RUN = 0.2
"""Above its best in earlier runs: the whole run was slow. Less may be the clock of another hour."""


def best_of_ruler(case: Case) -> float | None:
    """Seconds of the known work at its best beside this case; None if no ruler was read."""
    columns = [series.samples for series in case.series if series.metric.tag == "disturbance/ruler"]
    return min((quantile(np.asarray(samples), BEST) for samples in columns if samples), default=None)


def slowdown(case: Case, series: Series) -> Floats:
    """Return how many times as long as at its best known work took beside each sample, shape (n,)."""
    ruler, best = case.find("disturbance/ruler", series.regime), best_of_ruler(case)
    if ruler is None or best is None or len(ruler.samples) != len(series.samples):
        return np.ones(len(series.samples))
    known = case.details.known_work  # at its best in earlier runs
    reference = known if known and best > (1 + SLOW_RUN) * known else best
    return np.asarray(ruler.samples, dtype=float) / reference


def find_lost(case: Case, series: Series) -> Floats:
    """Seconds of each sample that it would have been spared at most, shape (n,).

    What was waited, stolen or throttled adds to a sample; no more than its CPU time, spread over all CPUs,
    leaves: waiting is a sum over threads. A slower CPU lengthens the rest by as much as known arithmetic, or
    less: by nothing if a program waits for memory."""
    seconds = np.asarray(series.samples, dtype=float)

    def column(name: str) -> Floats:
        evidence = case.find(f"disturbance/{name}", series.regime)
        if evidence is None or len(evidence.samples) != len(seconds):
            return np.zeros(len(seconds))
        return np.asarray(evidence.samples, dtype=float)

    away = np.max([column(name) for name in ("waited", "stolen", "missing", "throttled")], axis=0)
    busy = column("cpu") / (case.details.usable_cpus or np.inf)
    away = np.minimum(away, np.maximum(0.0, seconds - busy))
    return np.asarray(away + (seconds - away) * (1 - 1 / np.maximum(1, slowdown(case, series))))


def find_unexplained(case: Case, series: Series) -> float:
    """Share by which the mean would be longer with the disturbed samples, less all time that they lost.

    Long calls, and those of many threads, are hit more often than short ones. Where the excluded samples stay
    longer than the others even without what they lost, leaving them out has picked the short ones."""
    evidence, seconds = select(series), np.asarray(series.samples, dtype=float)
    calls = np.asarray(series.calls or [1] * len(seconds))
    whole = np.average((seconds - find_lost(case, series))[evidence.settled], weights=calls[evidence.settled])
    kept = np.average(evidence.values, weights=calls[evidence.positions])
    return float(whole / kept) - 1


def find_lost_share(case: Case, series: Series, evidence: Evidence) -> float:
    """Share of its time that the usual disturbed sample of a statistic lost; 0 if none had to be used."""
    label = np.asarray(series.label or [0] * len(series.samples), dtype=int)[evidence.positions]
    hit = (label & int(DISTURBED)) != 0
    if not hit.any():
        return 0.0
    share = find_lost(case, series)[evidence.positions] / evidence.values
    return median(share[hit])
