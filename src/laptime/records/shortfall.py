"""What the budget of a tuning session was too short for."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Shortfall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session left out because its budget was too short for it."""

    # race (nothing could be tried), measurement (the gain was not measured afresh)
    what: Literal["race", "measurement"]
    needs: float  # seconds that it takes, about
    left: float  # seconds that were left for it
    budget: float  # seconds of a session that would do, about
    sentence: str  # all that in words
