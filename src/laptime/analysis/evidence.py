"""Which samples a statistic may use, decided by what is known about them and never by their size."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.analysis.quantiles import Floats
from laptime.records.plan import TODAY, Constants
from laptime.records.series import DISTURBED, EXCLUDED, UNSETTLED, Label, Regime, Series

MIN_SAMPLES = 6
"""Below six samples a median has no 95 % interval."""

CROWDED = 0.75
"""Share of disturbed samples from which the rest are suspect, too."""

Basis = Literal["undisturbed", "few", "settled", "all"]


class Evidence(NamedTuple):
    """What one series supports.

    Attributes:
        values: samples the statistics use, shape (m,).
        positions: their places in the series.
        settled: places of all settled samples, disturbed ones too.
        basis: undisturbed (warm-up and disturbed ones excluded), few (the same, but too few for an interval
            of their own: it comes from the settled ones), settled (hardly any undisturbed ones: the
            disturbed are in it), all (nothing else left).
        disturbed: share of the settled samples with an outside cause.
        causes: number of settled samples by label word.
        warm_up: number of warm-up samples.
    """

    values: Floats
    positions: NDArray[np.intp]
    settled: NDArray[np.intp]
    basis: Basis
    disturbed: float
    causes: dict[str, int]
    warm_up: int

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
    causes: dict[str, int] = {}
    for flag in Label:
        if flag and (number := int((label[settled] & int(flag) != 0).sum())):
            causes[flag.words[0]] = number
    if len(clean) >= min(MIN_SAMPLES, max(1, len(settled))):
        positions, basis = clean, "settled" if hit and series.regime == Regime.PACED else "undisturbed"
    elif len(clean) >= constants.few_samples:
        positions, basis = clean, "few"
    elif len(settled):
        positions, basis = settled, "settled"
    else:
        positions, basis = np.arange(n), "all"
    return Evidence(
        values=values[positions],
        positions=positions,
        settled=settled,
        basis=basis,  # type: ignore[arg-type]
        disturbed=hit / len(settled) if len(settled) else 0.0,
        causes=causes,
        warm_up=int((label & int(Label.WARM_UP) != 0).sum()),
    )
