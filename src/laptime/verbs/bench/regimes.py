"""Which regimes a round of blocks holds."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.records.series import Regime
from laptime.verbs.bench.case_worker import CaseWorker

SHORT = 30e-6
"""Seconds of a call from which two readings of the clock are below 1 % of it."""


def of_round(
    asked: Sequence[str], worker: CaseWorker, batch: int, *, is_long_round: bool
) -> list[tuple[Regime, float]]:
    """Regimes, each with its share of a block; paced calls have stretches of their own.

    By default latency is measured in every round and the other regimes in long ones. Where a call returns
    with its result, calls back to back are calls one by one; very short ones are timed in blocks, too.

    Args:
        asked: the regimes that the user named; empty takes what the device offers.
    """
    if asked:
        return [(regime, 1.0) for regime in map(Regime, asked) if not regime.needs_rate]
    on_cpu = worker.loaded is None or all(device.name == "cpu" for device in worker.loaded.devices)
    is_long_call = worker.estimate.get(batch, SHORT) >= SHORT and batch not in worker.asynchronous
    if not is_long_round or (on_cpu and is_long_call):
        return [(Regime.ISOLATED, 1.0)]
    more = [(Regime.SATURATED, 0.4)] if on_cpu else [(Regime.SATURATED, 1.0), (Regime.DEVICE, 1.0)]
    return [(Regime.ISOLATED, 1.0), *more]
