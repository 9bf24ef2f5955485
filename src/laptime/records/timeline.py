"""One step, event by event, to be drawn."""

from __future__ import annotations

from msgspec import Struct


class Lane(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thread or a stream, with its ranges as parallel lists.

    Attributes:
        kind: host or device.
        name: `thread 123 main`, `cuda:0 stream 7`.
        start_ns: since the start of the step; dur_ns.
        name_index: into Timeline.names.
        depth: nesting of host ranges, 0 outermost.
        category: into Timeline.categories.
    """

    kind: str
    name: str
    start_ns: list[int] = []
    dur_ns: list[int] = []
    name_index: list[int] = []
    depth: list[int] = []
    category: list[int] = []


class Timeline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The step nearest the median, all threads and streams.

    Attributes:
        step: its number. dur_ns: its length.
        dropped: ranges left out because there are too many (the shortest go first).
        arrows: launches: (host lane, row, device lane, row), only those of ranges that are here.
    """

    step: int
    dur_ns: int
    names: list[str] = []
    categories: list[str] = []
    lanes: list[Lane] = []
    arrows: list[tuple[int, int, int, int]] = []
    dropped: int = 0
