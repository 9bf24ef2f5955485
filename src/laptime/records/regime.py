"""Regimes: how calls follow each other while they are timed. No latency means anything without its regime."""

from __future__ import annotations

from enum import StrEnum


class Regime(StrEnum):
    """One regime; its value is the word on the command line and in stored files.

    Attributes:
        meaning: what is timed, in a phrase for readers.
        times_calls: a sample is one call; otherwise it is a block of calls, and told per call.
        needs_rate: calls are made on a schedule, so somebody has to say how many per second.
        needs_accelerator: only a device that keeps times of its own has it.
    """

    meaning: str
    times_calls: bool
    needs_rate: bool
    needs_accelerator: bool

    def __new__(
        cls,
        value: str,
        meaning: str = "",
        times_calls: bool = True,
        needs_rate: bool = False,
        needs_accelerator: bool = False,
    ) -> Regime:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.times_calls = times_calls
        member.needs_rate = needs_rate
        member.needs_accelerator = needs_accelerator
        return member

    ISOLATED = "isolated", "one call at a time, waiting for each"
    SATURATED = "saturated", "calls back to back, one wait at the end", False
    DEVICE = "device", "time on the device alone", True, False, True
    PACED = "paced", "calls at a fixed rate, counted from when each was due", True, True


HEADLINE_ORDER = (Regime.ISOLATED, Regime.PACED, Regime.DEVICE, Regime.SATURATED)
"""Which latency a case is known by: the first of these that was measured."""

COMPARISON_ORDER = (Regime.ISOLATED, Regime.DEVICE, Regime.SATURATED, Regime.PACED)
"""Which latencies two cases are compared by: the first of these that both have."""

THROUGHPUT_ORDER = (Regime.SATURATED, Regime.ISOLATED, Regime.DEVICE, Regime.PACED)
"""Which regime a throughput is told in."""
