"""Two cases, two profiles, or many runs against each other."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from laptime.records.check import Trust

Word = Literal["faster", "slower", "same", "unclear"]


class Comparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can be said about candidate against baseline.

    Attributes:
        baseline, candidate: case keys.
        metric: tag and regime compared, "latency/isolated" or "throughput/saturated".
        speedup: baseline time over candidate time; above 1 the candidate is faster.
        ci95: 95 % interval of the speedup.
        word: faster, slower, same (the interval lies inside the margin: proof, not absence of it), unclear.
        margin: relative difference below which nothing is claimed.
        pairs: interleaved pairs (blocks of both, side by side in time) behind it.
        processes: fresh processes of each side behind it.
        sentence: what to tell the user.
    """

    baseline: str
    candidate: str
    metric: str
    speedup: float
    ci95: tuple[float, float]
    word: Word
    margin: float
    pairs: int
    processes: int = 1
    sentence: str = ""


# Two profiles side by side.

Change = Literal["added", "gone", "slower", "faster", "same"]


class ChangedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something in both or in one of them, per step, so that runs of different lengths can be compared.

    Attributes:
        name: operator, kernel or part of the breakdown.
        change: slower and faster mean at least 2 % and 1 us per step.
        before_ns, after_ns: per step. calls are per step, too.
        explains: its share of the whole difference of the step; can be negative.
    """

    name: str
    change: Change
    before_ns: int
    after_ns: int
    before_calls: float = 0.0
    after_calls: float = 0.0
    explains: float | None = None

    @property
    def delta_ns(self) -> int:
        """After - before."""
        return self.after_ns - self.before_ns


class Difference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changed from `before` (the profile given by --against) to this one; rows by what explains most.

    Attributes:
        before: name of the other file(s).
        before_step_ns, after_step_ns: mean steps.
        speedup: before / after. ci95: its 95 % interval over the steps of both; None below two on a side.
        breakdown: rows named like the parts of Breakdown.
        operators: by device self time, or host self time without an accelerator.
        idle: rows named like idle causes.
        sentence: the whole in words.
        warnings: other device, other number of ranks, ...
    """

    before: str
    before_step_ns: int
    after_step_ns: int
    speedup: float
    sentence: str
    ci95: tuple[float, float] | None = None
    breakdown: list[ChangedRow] = []
    operators: list[ChangedRow] = []
    kernels: list[ChangedRow] = []
    idle: list[ChangedRow] = []
    warnings: list[str] = []


# One number over many runs, and where its level changed.


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
