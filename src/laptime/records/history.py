"""One number over many runs, and where its level changed."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from laptime.records.check import Trust


class Point(Struct, frozen=True, kw_only=True):
    """The number in one run.

    Attributes:
        run, name, started: which run.
        commit: of the folder the user worked in, "" when unknown; `dirty` when tracked files were changed.
        versions: of the libraries that were loaded.
        machine: its name; "" where nothing names it.
        value, ci95: in the history's unit.
        trust: of the case.
        at_least: the true number is larger.
    """

    run: str
    name: str = ""
    started: str = ""
    commit: str = ""
    dirty: bool = False
    versions: dict[str, str] = {}
    machine: str = ""
    value: float
    ci95: tuple[float, float] | None = None
    trust: Trust = "trusted"
    at_least: bool = False


class Step(Struct, frozen=True, kw_only=True):
    """A change of level.

    Attributes:
        at: index of the first point of the new level.
        ratio: new level over old level; ci95 its 95 % interval.
        word: better or worse, in the sense of the metric; changed where it has none.
        p: p-value of the search that found it.
        sentence: what to tell the user.
    """

    at: int
    ratio: float
    ci95: tuple[float, float] | None = None
    word: Literal["better", "worse", "changed"]
    p: float
    sentence: str


class History(Struct, frozen=True, kw_only=True):
    """One metric of one case over runs that may be compared.

    Attributes:
        case: key.
        metric, title, unit, better: as in `Stat`.
        conditions: fingerprint that all runs share; "" when they were put together all the same.
        machine: that all runs share; "" where nothing names it, or several were put together.
        differs: what sets these conditions apart from those of other histories of the same case.
        points: oldest first.
        left_out: runs of this case without a usable number (invalid, failed, no such metric).
        steps: changes of level, oldest first.
        note: why no changes were sought.
    """

    case: str
    metric: str
    title: str
    unit: str
    better: str = "none"
    conditions: str = ""
    machine: str = ""
    differs: list[str] = []
    points: list[Point]
    left_out: int = 0
    steps: list[Step] = []
    note: str = ""
