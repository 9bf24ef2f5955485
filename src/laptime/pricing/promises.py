"""A promise about latency (an SLO), and whether a case keeps it: judged by the upper end of the interval.

50ms    latency=50ms@p99    20ms@median
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from laptime.analysis.stat import Stat
from laptime.kit.errors import UsageError
from laptime.kit.quantity import seconds
from laptime.kit.units import show
from laptime.records.regime import Regime

QUANTILES = ("median", "p90", "p95", "p99")
_FORM = re.compile(r"(?:latency\s*(?:=|<=)\s*)?([^@=<]+?)(?:\s*@\s*(\w+))?", re.ASCII)

Word = Literal["kept", "broken", "undecided"]


class Promise(NamedTuple):
    """So many seconds, at this quantile of latency."""

    limit: float
    quantile: str = "p99"

    @property
    def text(self) -> str:
        """How it is typed: `latency=50ms@p99`."""
        limit = f"{self.limit:g}s" if self.limit >= 1 else f"{self.limit * 1e3:g}ms"
        return f"latency={limit}@{self.quantile}"


def promise(text: str) -> Promise:
    """The promise that a text means; p99 where it names no quantile.

    Raises:
        UsageError: it is none.
    """
    match = _FORM.fullmatch(text.strip())
    quantile = (match[2] or "p99") if match else ""
    quantile = {"p50": "median"}.get(quantile, quantile)
    if match is None or quantile not in QUANTILES:
        raise UsageError(
            f"{text!r} is no promise about latency",
            why=f"it takes a duration, and one of {', '.join(QUANTILES)} behind an @",
            next="--slo latency=50ms@p99",
        )
    return Promise(seconds(match[1]), quantile)


class Judged(NamedTuple):
    """Whether a promise was kept in one regime, with the latency that says so."""

    word: Word
    latency: float | None
    reason: str = ""


def judge(wanted: Promise, stats: dict[str, Stat], regime: str) -> Judged:
    """Whether the calls of a regime kept the promise."""
    stat = stats.get(f"latency/{regime}/{wanted.quantile}")
    if stat is None or stat.value is None:
        return Judged("undecided", None, stat.note if stat else f"no {wanted.quantile} was measured")
    upper = stat.ci95[1] if stat.ci95 else stat.value
    if upper <= wanted.limit:
        return Judged("kept", stat.value)
    known = f"its {wanted.quantile} is {show(stat.value, 's', stat.ci95)}"
    if stat.value > wanted.limit:
        return Judged("broken", stat.value, known)
    return Judged("broken", stat.value, f"{known}, its interval reaches {show(upper, 's')}")


ONE_BY_ONE = (Regime.PACED, Regime.ISOLATED)
"""Regimes in which a call is timed as somebody who waits for it sees it."""
