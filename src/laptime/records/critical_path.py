"""What decides the length of a step: a chain of host work, launches, device work and waits without a gap."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Link = Literal[
    "kernel",
    "communication",
    "copy",
    "gap",
    "latency",
    "launch",
    "synchronisation",
    "data",
    "operator",
    "python",
    "unrecorded",
]
"""On the device: kernels, collectives, copies and memsets, and gaps between two activities of which one
waited for the other. Latency: from the end of a launch call to the start of its work. On the host: runtime
and driver calls (launch), calls that waited for the device, after it was done (synchronisation), the loader
(data), operators, Python or a named range (python), and what no event explains."""


class PathRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All parts of the path of one kind and name.

    Attributes:
        id: kind and name.
        name: kernel, or operator on the host; "" where nothing has a name.
        parts: how many. longest_ns: the longest of them.
        stack: of the longest, innermost frame first.
    """

    id: str
    kind: Link
    name: str
    total_ns: int
    parts: int
    longest_ns: int
    stack: list[str] = []


class CriticalPath(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The path of one step; `kinds_ns` and `rows` sum to `total_ns`, the step.

    Attributes:
        step: its number.
        kinds_ns: by kind, longest first.
        rows: longest first.
    """

    step: int
    total_ns: int
    kinds_ns: dict[str, int]
    rows: list[PathRow]
