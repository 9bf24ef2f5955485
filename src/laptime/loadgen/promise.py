"""How many requests a second kept every promise themselves."""

from collections.abc import Sequence

import numpy as np

from laptime.analysis.batch_means import mean_interval
from laptime.analysis.load import LevelStats
from laptime.analysis.promises import Promise
from laptime.analysis.quantiles import effective_size_of_mean


def goodput(wanted: Sequence[Promise], stats: LevelStats) -> tuple[float, float, float] | None:
    """Requests per second whose own times kept every limit, and its interval.

    None of a queue that grows, and if the time between tokens is promised and not known.

    The ITL of a request is its TPOT. One that failed keeps nothing; one without a time between tokens breaks
    no limit on it."""
    rate = stats.answered.value
    if stats.balance.grows or rate is None:
        return None
    rows = stats.requests.since(stats.steady)
    metrics = {promise.metric for promise in wanted}
    is_known = not np.isnan(rows.tpot).all() and (
        "itl" not in metrics or (stats.tokens and stats.tokens.exact)
    )
    if metrics & {"itl", "tpot"} and not is_known:
        return None
    keeps = np.isfinite(rows.latency)
    per_answer = rate / float(keeps.mean())
    for promise in wanted:
        own = {"latency": rows.latency, "ttft": rows.ttft}.get(promise.metric, rows.tpot)
        keeps &= ~(own > promise.limit)
    share = float(keeps.mean())
    around = mean_interval(keeps.astype(float))
    if around is None:
        return None
    # Where all are alike their spread says nothing: three requests more or less could have gone otherwise.
    doubt = 3 / effective_size_of_mean(rows.latency[np.isfinite(rows.latency)])
    low = around[0] if share < 1 else max(0.0, 1 - doubt)
    high = min(1.0, around[1]) if share > 0 else min(1.0, doubt)
    return share * per_answer, low * per_answer, high * per_answer
