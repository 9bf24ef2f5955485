"""Was the model in training mode? Dropout, batch norms and others do other work there than in eval mode."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it, with what eval mode would be."""
    share = case.details.outputs.in_eval if case.details.outputs is not None else None
    if share is None:
        return None
    words = "as long" if 0.95 < share < 1.05 else f"{share:.3g} times as long"
    return Check(
        "training_mode",
        "note",
        f"measured in training mode, as it was given; in eval mode a call takes {words}",
        "--option mode=eval   or call .eval() in the function",
    )


MOST, SECONDS = 9, 1.0
"""Pairs of calls, and the time for more than three of them."""


def share_of_eval(modules: Iterable[Any], call: Callable[[], Any]) -> float | None:
    """Time of a call in eval mode as a share of one in training mode, call by call in turns.

    Args:
        modules: all of them, down to the last; their flags are given back. None where none is in training.
    """
    parts = [module for module in modules if module.training]
    shares: list[float] = []
    began = time.perf_counter()
    while parts and len(shares) < MOST and (len(shares) < 3 or time.perf_counter() - began < SECONDS):
        seconds = []
        for training in (False, True):
            for part in parts:
                part.training = training
            started = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - started)
        shares.append(seconds[0] / seconds[1])
    return median(shares[1:]) if shares else None
