"""What a language model's answers tell: first token, tokens after it, tokens per second."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laptime.analysis.load.batch_means import quantile_interval
from laptime.analysis.quantiles import Floats
from laptime.analysis.stat import Stat
from laptime.records.case import Case
from laptime.records.load import GAP, TOKENS_IN, TOKENS_OUT, TPOT, TTFT, TURN_NUMBER, Level
from laptime.records.metric import Metric


class Tokens(NamedTuple):
    """Of one level, in order of arrival from the first request that counts.

    Attributes:
        ttft, tpot: by name of the quantile. gap: between chunks; these are tokens where `exact`.
        exact: every chunk held one token, by the server's counts.
        sent, got: tokens per second in and out. prompt, output: tokens of a request, on average.
        short: share of the answers that are shorter than was asked for.
        by_turn: median TTFT of each turn of conversations; [] where there are none.
    """

    ttft: dict[str, Stat]
    tpot: dict[str, Stat]
    gap: dict[str, Stat]
    exact: bool
    sent: float
    got: float
    prompt: float
    output: float
    short: float
    by_turn: list[Stat]


def tokens(case: Case, facts: Level, steady: float, answered: float) -> Tokens | None:
    """The tokens of a level; None where there are none.

    Args:
        steady: seconds since the run started from which requests count. answered: answers per second.
    """
    if facts.asked is None or case.find(TTFT.tag, facts.regime) is None:
        return None
    prompt, output = _values(case, facts, TOKENS_IN), _values(case, facts, TOKENS_OUT)
    counted = bool(len(output)) and not facts.uncounted
    return Tokens(
        ttft=_quantiles(_in_order(case, facts, TTFT, steady), TTFT),
        tpot=_quantiles(_in_order(case, facts, TPOT, steady), TPOT),
        gap=_quantiles(_values(case, facts, GAP), GAP),
        exact=counted and facts.chunks == int(output.sum()),
        sent=float(prompt.mean()) * answered if len(prompt) else 0.0,
        got=float(output.mean()) * answered if len(output) else 0.0,
        prompt=float(prompt.mean()) if len(prompt) else 0.0,
        output=float(output.mean()) if len(output) else 0.0,
        short=float((output < facts.asked[1]).mean()) if len(output) else 0.0,
        by_turn=_by_turn(case, facts, steady),
    )


def _by_turn(case: Case, facts: Level, steady: float) -> list[Stat]:
    """In order of arrival, each turn for itself."""
    series = case.find(TTFT.tag, facts.regime)
    counts = np.asarray(series.at if series else []) >= steady
    turns, first = (_values(case, facts, metric) for metric in (TURN_NUMBER, TTFT))
    turns, first = (turns[counts], first[counts]) if len(turns) else (turns, first)
    made = [_quantiles(first[turns == turn], TTFT) for turn in range(1, facts.turns + 1) if len(turns)]
    return [stats["median"] for stats in made if stats]


def _values(case: Case, facts: Level, metric: Metric) -> Floats:
    series = case.find(metric.tag, facts.regime)
    return np.asarray(series.samples if series else [], dtype=float)


def _in_order(case: Case, facts: Level, metric: Metric, steady: float) -> Floats:
    series = case.find(metric.tag, facts.regime)
    if series is None:
        return np.asarray([], dtype=float)
    at, values = np.asarray(series.at), np.asarray(series.samples)
    order = np.argsort(at, kind="stable")
    return values[order][at[order] >= steady]


def _quantiles(values: Floats, metric: Metric) -> dict[str, Stat]:
    if not len(values):
        return {}
    stats = {}
    for name, q in (("median", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        ci95 = quantile_interval(values, q)
        value = float(np.quantile(values, q)) if ci95 is not None or name == "median" else None
        stats[name] = Stat(
            tag=f"{metric.tag}/{name}",
            title=f"{name} {metric.title}",
            unit=metric.unit,
            value=value,
            ci95=ci95,
            n=len(values),
            better="lower",
        )
    return stats
