"""Nothing changes. Raced like every other change, as control: where it wins, the race cannot be trusted.

Source: an A/A test; reference on tuning, "Sequential A/B lies": 24 of 60 naive comparisons of a program with
itself were "significant".
Lies when: never; it shows that others do.
"""

from typing import Any

from laptime.tuning.optimization import CannotEdit, Options

TITLE = "nothing, as control"
NUMERICS = "exact"
SAVES: dict[str, float] = {}
"""Nothing can be saved; it is raced all the same."""
TOGGLE = "live"
GIVES: frozenset[str] = frozenset()


def apply(loop: Any, options: Options) -> None:
    loop.process(lambda: None)


def edit(script: Any, options: Options) -> None:
    raise CannotEdit("it changes nothing")
