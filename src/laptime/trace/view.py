"""A trace with its links and its steps: what every table is made from."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from laptime.trace.columns import Ints, Trace
from laptime.trace.links import Links

Result = TypeVar("Result")


class Steps(NamedTuple):
    """Device-aware steps in time order; int64 arrays of one length, at least one row.

    Attributes:
        number: of ProfilerStep#N; 0 for the only step of a trace without steps.
        start, end: ns; contiguous: each starts where the one before ends, or later.
        host_start, host_end: of the annotation on the host.
    """

    number: Ints
    start: Ints
    end: Ints
    host_start: Ints
    host_end: Ints


class View(NamedTuple):
    """What a table is made from."""

    trace: Trace
    links: Links
    steps: Steps

    @property
    def window(self) -> tuple[int, int]:
        """First step's start to last step's end."""
        return int(self.steps.start[0]), int(self.steps.end[-1])


def once(find: Callable[[View], Result]) -> Callable[[View], Result]:
    """Compute the function once per trace, for as long as the trace lives.

    Only for what follows from the trace alone, not from its steps.
    """
    results: WeakKeyDictionary[Trace, Result] = WeakKeyDictionary()

    @wraps(find)
    def found(view: View) -> Result:
        if view.trace not in results:
            results[view.trace] = find(view)
        return results[view.trace]

    return found
