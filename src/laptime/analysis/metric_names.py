"""What a limit can name, as far as that is known before anything is measured."""

from __future__ import annotations

from laptime.analysis.summary import QUANTILES, REPORTED
from laptime.kit.errors import UsageError, unknown
from laptime.kit.text import closest

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
    Raises UsageError: it is such a name; the nearest right one is suggested.
    """
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
