"""What a block of load says of a server: one number for the race, all requests for the promises."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from statistics import fmean

from laptime.analysis.load import LevelStats, level_stats
from laptime.analysis.promises import level_judged, promises
from laptime.records.case import Case
from laptime.records.quantity import BROKEN
from laptime.records.requests import GAP, LATENCY, TPOT, TTFT
from laptime.records.tuning import GateCheck
from laptime.tuning.gates.invariants import checked
from laptime.tuning.search.evaluator import TrialFailed

_SERIES = {"latency": LATENCY, "ttft": TTFT, "tpot": TPOT, "itl": GAP}
TITLES = {
    "throughput": "answers per second",
    "latency": "mean latency",
    "ttft": "mean time to first token",
    "tpot": "mean time per output token",
    "itl": "mean inter-token latency",
}


def figure(case: Case, name: str) -> float:
    """Seconds, less is better: the mean of a latency over all requests, a growing queue's too; of throughput
    the seconds that an answer (of a language model: an output token) takes of the server's time.

    Args:
        name: one of `TITLES`.

    Raises:
        TrialFailed: the block has no such figure.
    """
    if name == "throughput":
        return 1 / rate(case)
    samples = [
        value for each in case.samples if each.metric.tag == _SERIES[name].tag for value in each.samples
    ]
    if not samples:
        raise TrialFailed("crashed", f"no answer had a {TITLES[name].removeprefix('mean ')}")
    return fmean(samples)


def rate(case: Case) -> float:
    """Answers per second, of a language model whose tokens are counted output tokens per second.

    Raises:
        TrialFailed: there is none.
    """
    stats = level_stats(case)
    answered = stats.answered.value if stats else None
    if stats is None or not answered:
        raise TrialFailed("crashed", "too few answers came for a rate")
    return stats.tokens.got if counts_tokens(stats) and stats.tokens else answered


def counts_tokens(stats: LevelStats | None) -> bool:
    """Whether a rate is one of output tokens."""
    return stats is not None and stats.tokens is not None and stats.tokens.got > 0


def pooled(cases: Sequence[Case]) -> Case:
    """All requests of several blocks as one level, in order of their time."""
    return reduce(lambda whole, case: whole.with_requests(case.requests) if case.requests else whole, cases)


def limits(slo: str, cases: Sequence[Case]) -> list[GateCheck]:
    """Whether blocks of load keep a promise: by the upper end of its interval, never by the point value."""
    if not slo or not cases:
        return []
    growing = sum(bool(stats and stats.balance.grows) for stats in map(level_stats, cases))
    if 2 * growing > len(cases):
        text = f"{slo}: the queue grew in {growing} of {len(cases)} blocks: above capacity"
        return [checked("slo", BROKEN, text)]
    verdict = level_judged(promises(slo), level_stats(pooled(cases)))
    return [checked("slo", verdict.word, f"{slo} is {verdict.word}: {verdict.sentence}")]
