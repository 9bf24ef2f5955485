"""What bounds a call of a model, whole and by class of operators, beside what the cores can at most."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from laptime.records.overview import OperatorClass, Roofline

BoundWord = Literal["compute", "memory", "overhead", "threads", "neither", "unknown"]
"""What takes at least half of the time. neither: nothing does, as far as is known; unknown: too much of the
time belongs to operators whose work nobody could count, or the ceilings are not known."""


class ClassBound(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bound of the operators of one class."""

    kind: OperatorClass  # the class
    operators: float  # calls of operators in a call of the model
    seconds: float  # of a call
    share: float  # of the call
    word: BoundWord  # what bounds them
    # share of their seconds by compute, memory, overhead, threads; add up to 1 at most
    reasons: dict[str, float] = {}
    uncounted: float = 0.0  # share of their seconds whose work is not known


class CallBounds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What bounds a call of a model, from a recording of some calls by the runtime's own profiler."""

    # what bounds the call; "" where it could not be recorded: `missing` says why
    word: BoundWord | Literal[""] = ""
    # share of the call by compute, memory, overhead, threads; add up to 1 at most, the rest is not explained
    reasons: dict[str, float] = {}
    uncounted: float = 0.0  # share of the call in operators whose work is not known
    call: float = 0.0  # seconds of a call that was not recorded
    recorded: float = 0.0  # seconds of a recorded one
    calls: int = 0  # that were recorded
    outside: float = 0.0  # share of the call outside of operators
    threads: int = 0  # of the runtime
    cores: float = 0.0  # that may be used
    busy: float | None = None  # cores that worked on average
    recorder: str = ""  # what recorded it, in words
    classes: list[ClassBound] = []  # most time first
    roofline: Roofline | None = None  # work by class and by operator of one call, with the ceilings
    missing: str = ""


class ModelBounds(Struct, frozen=True, kw_only=True):
    """What bounds a call of the model as it is, and of the final set; None where the session has none."""

    before: CallBounds | None = None
    after: CallBounds | None = None
