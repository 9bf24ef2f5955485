"""A trace with its links and its steps: what every table is made from."""

from __future__ import annotations

from typing import NamedTuple

from laptime.trace.columns import Ints, Trace
from laptime.trace.links import Links


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
