"""What bounds a call of a model, whole and by class of operators, beside what the cores can at most."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from laptime.records.overview import OperatorClass, Roofline

BoundWord = Literal["compute", "memory", "overhead", "threads", "neither", "unknown"]
"""What takes at least half of the time. neither: nothing does, as far as is known; unknown: too much of the
time belongs to operators whose work nobody could count, or the ceilings are not known."""


class ClassBound(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bound of the operators of one class.

    Attributes:
        kind: the class. operators: calls of operators in a call of the model.
        seconds: of a call. share: of the call.
        word: what bounds them. reasons: share of their seconds by compute, memory, overhead, threads; add up
            to 1 at most. uncounted: share of their seconds whose work is not known.
    """

    kind: OperatorClass
    operators: float
    seconds: float
    share: float
    word: BoundWord
    reasons: dict[str, float] = {}
    uncounted: float = 0.0


class CallBounds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What bounds a call of a model, from a recording of some calls by the runtime's own profiler.

    Attributes:
        word: what bounds the call; "" where it could not be recorded: `missing` says why.
        reasons: share of the call by compute, memory, overhead, threads; add up to 1 at most, the rest is
            not explained. uncounted: share of the call in operators whose work is not known.
        call: seconds of a call that was not recorded. recorded: seconds of a recorded one.
        calls: that were recorded. outside: share of the call outside of operators.
        threads: of the runtime. cores: that may be used. busy: cores that worked on average.
        recorder: what recorded it, in words. classes: most time first.
        roofline: work by class and by operator of one call, with the ceilings.
    """

    word: BoundWord | Literal[""] = ""
    reasons: dict[str, float] = {}
    uncounted: float = 0.0
    call: float = 0.0
    recorded: float = 0.0
    calls: int = 0
    outside: float = 0.0
    threads: int = 0
    cores: float = 0.0
    busy: float | None = None
    recorder: str = ""
    classes: list[ClassBound] = []
    roofline: Roofline | None = None
    missing: str = ""


class ModelBounds(Struct, frozen=True, kw_only=True):
    """What bounds a call of the model as it is, and of the final set; None where the session has none."""

    before: CallBounds | None = None
    after: CallBounds | None = None
