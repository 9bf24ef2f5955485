"""Does a call change its own inputs, so that the next one would do other work?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it: each call got a fresh copy."""
    if not case.details.inputs.get("changed"):
        return None
    sentence = "a call changes its inputs: each got a fresh copy of them, outside the timed part"
    return Check("changed_inputs", "note", sentence, "copy inside the function what it may not change")


def has_changed(kept: Any, now: Any) -> bool:
    """Whether inputs are no longer what a copy of them holds. Objects that cannot be compared are."""
    if isinstance(kept, Mapping):
        is_other = not isinstance(now, Mapping) or [*kept] != [*now]
        return is_other or any(has_changed(part, now[key]) for key, part in kept.items())
    if isinstance(kept, list | tuple):
        is_other = not isinstance(now, list | tuple) or len(kept) != len(now)
        return is_other or any(map(has_changed, kept, now))
    if hasattr(kept, "shape"):
        same = kept.shape == now.shape and kept.dtype == now.dtype
        return not same or not bool(((kept == now) | ((kept != kept) & (now != now))).all())
    return isinstance(kept, bytearray | set | str | int | float) and kept == kept and bool(kept != now)
