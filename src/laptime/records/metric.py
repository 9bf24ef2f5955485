"""A metric is data, not a field: a tag, a unit, what it means and when it lies."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Metric(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a number is.

    Attributes:
        tag: stable name for machines, `latency`, `memory/host/peak`.
        unit: SI base unit of stored values: s B J W K Hz FLOP MAC FLOP/s B/s 1/s 1 ratio.
        title: the words people read.
        better: which direction an engineer wants it to go.
        meaning: one sentence.
        lies_when: the conditions under which the number misleads.
    """

    tag: str
    unit: str
    title: str
    better: Literal["lower", "higher", "none"] = "none"
    meaning: str = ""
    lies_when: str = ""
