"""The order in which cases are measured: in rounds, so that drift of the machine hits all of them alike.

    round 1   A B C      random order
    round 2   C B A      the same turned round
    round 3   B A C      random again ...

A minute of A and then a minute of B would measure the machine's drift; blocks close in time share it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def rounds(items: Sequence[T], seed: int) -> Iterator[list[T]]:
    """Endless rounds, each with every item once; every second one mirrors the one before."""
    shuffle = random.Random(seed)  # noqa: S311 - an order, not a secret
    while True:
        order = list(items)
        shuffle.shuffle(order)
        yield order
        yield order[::-1]


def looks() -> Iterator[int]:
    """Numbers of rounds after which to check whether to stop: 2, 3, 4, 6, 8, 11, 16, 22, 31 ...

    Few and ever farther apart, because each look is another chance to stop on a lucky interval.
    """
    at = 2.0
    last = 1
    while True:
        if round(at) > last:
            last = round(at)
            yield last
        at *= 1.4
