"""Two cases, two profiles, or many runs against each other."""

from typing import Literal

from msgspec import Struct

from laptime.records.check import Trust

Word = Literal["faster", "slower", "same", "unclear"]


class Comparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The comparison of a candidate with its baseline."""

    # baseline, candidate: case keys
    baseline: str
    candidate: str
    metric: str  # tag and regime compared, "latency/isolated" or "throughput/saturated"
    speedup: float  # baseline time over candidate time; above 1 the candidate is faster
    ci95: tuple[float, float]  # 95 % interval of the speedup
    # faster, slower, same (the interval lies inside the margin: proof, not absence of it), unclear
    word: Word
    margin: float  # relative difference below which nothing is claimed
    pairs: int  # interleaved pairs (blocks of both, side by side in time) behind it
    processes: int = 1  # fresh processes of each side behind it
    sentence: str = ""  # what to tell the user


# Two profiles side by side.

Change = Literal["added", "gone", "slower", "faster", "same"]


class ChangedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something in both or in one of them, per step, so that runs of different lengths can be compared."""

    name: str  # operator, kernel or part of the breakdown
    change: Change  # slower and faster mean at least 2 % and 1 us per step
    # before_ns, after_ns: per step. calls are per step, too.
    before_ns: int
    after_ns: int
    before_calls: float = 0.0
    after_calls: float = 0.0
    explains: float | None = None  # its share of the whole difference of the step; can be negative

    @property
    def delta_ns(self) -> int:
        """After - before."""
        return self.after_ns - self.before_ns


class Difference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The changes from `before` (the profile given by --against) to this one; rows by what explains most."""

    before: str  # name of the other file(s)
    # before_step_ns, after_step_ns: mean steps
    before_step_ns: int
    after_step_ns: int
    speedup: float  # before / after
    sentence: str  # the whole in words
    # its 95 % interval over the steps of both; None below two on a side
    ci95: tuple[float, float] | None = None
    breakdown: list[ChangedRow] = []  # rows named like the parts of Breakdown
    operators: list[ChangedRow] = []  # by device self time, or host self time without an accelerator
    kernels: list[ChangedRow] = []
    idle: list[ChangedRow] = []  # rows named like idle causes
    warnings: list[str] = []  # other device, other number of ranks, ...


# One number over many runs, and where its level changed.


class Point(Struct, frozen=True, kw_only=True):
    """The number in one run."""

    # run, name, started: which run
    run: str
    name: str = ""
    started: str = ""
    # of the folder the user worked in, "" when unknown; `dirty` when tracked files were changed
    commit: str = ""
    dirty: bool = False
    versions: dict[str, str] = {}  # of the libraries that were loaded
    machine: str = ""  # its name; "" if nothing names it
    # value, ci95: in the history's unit
    value: float
    ci95: tuple[float, float] | None = None
    trust: Trust = "trusted"  # of the case
    at_least: bool = False  # the true number is larger


class Step(Struct, frozen=True, kw_only=True):
    """A change of level."""

    at: int  # index of the first point of the new level
    ratio: float  # new level over old level; ci95 its 95 % interval
    ci95: tuple[float, float] | None = None
    # better or worse, in the sense of the metric; changed if it has none
    word: Literal["better", "worse", "changed"]
    p: float  # p-value of the search that found it
    sentence: str  # what to tell the user


class History(Struct, frozen=True, kw_only=True):
    """One metric of one case over runs that may be compared."""

    case: str  # key
    # metric, title, unit, better: as in `Stat`
    metric: str
    title: str
    unit: str
    better: str = "none"
    conditions: str = ""  # fingerprint that all runs share; "" when they were put together all the same
    machine: str = ""  # that all runs share; "" if nothing names it, or several were put together
    differs: list[str] = []  # what sets these conditions apart from those of other histories of the same case
    points: list[Point]  # oldest first
    left_out: int = 0  # runs of this case without a usable number (invalid, failed, no such metric)
    steps: list[Step] = []  # changes of level, oldest first
    note: str = ""  # why no changes were sought
