"""Nothing changes. It is raced like every other change, as control: if it wins, do not trust the race.

Source: an A/A test; reference on tuning, "Sequential A/B lies": 24 of 60 naive comparisons of a program with
itself were "significant".
Lies when: never; it shows that others do."""

from typing import Any

from laptime.tuning.optimization import CannotEdit, Optimization, Options


def edit(script: Any, options: Options) -> None:
    raise CannotEdit("it changes nothing")


OPTIMIZATION = Optimization(
    title="nothing, as control",
    numerics="exact",
    # Nothing can be saved; it is raced all the same.
    saves={},
    live=True,
    gives=frozenset(),
    apply=lambda loop, options: loop.process(lambda: None),
    edit=edit,
)
