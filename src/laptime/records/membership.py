"""The suite that a run belongs to."""

from __future__ import annotations

from msgspec import Struct


class Membership(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One benchmark of one run of a suite.

    Attributes:
        id: of one `laptime suite run`; all its runs share it, also those that `--resume` adds.
        name: of the suite.
        benchmark: name in the suite.
        question: hash of what the benchmark asked for; another one is another question.
        tags: as in the suite.
    """

    id: str
    name: str
    benchmark: str
    question: str = ""
    tags: list[str] = []
