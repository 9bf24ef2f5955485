"""Nothing. It is raced like every other change, as control: when it wins, the race is not to be believed.

Source: an A/A test; reference on tuning, "Sequential A/B lies": 24 of 60 naive comparisons of a program with
itself were "significant".
Lies when: never; it is what shows that others do.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import CannotEdit, Options

TITLE = "nothing, as control"
NUMERICS = "exact"
TOGGLE = "live"
NEEDS: frozenset[str] = frozenset()
GIVES: frozenset[str] = frozenset()
CONFLICTS: frozenset[str] = frozenset()


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Always."""
    return [{}]


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Nothing can be saved; it is raced all the same."""
    return 0.0


def apply(loop: Any, options: Options) -> None:
    """Goes the way of every change, and does nothing there."""
    loop.process(lambda: None)


def edit(script: Any, options: Options) -> None:
    """There is nothing to edit."""
    raise CannotEdit("it changes nothing")
