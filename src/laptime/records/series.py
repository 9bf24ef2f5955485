"""Raw samples of one metric in one regime, and the labels that say what hit each of them.

A metric is data, not a field: a tag, a unit, what it means and when it lies. A regime says how calls follow
each other while they are timed; no latency means anything without it."""

import re
from enum import IntFlag, StrEnum
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs


class Metric(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The meaning of a number: its name, its unit, which way is better."""

    tag: str  # stable name for machines, `latency`, `memory/host/peak`
    unit: str  # SI base unit of stored values: s B J W K Hz FLOP MAC FLOP/s B/s 1/s 1 ratio
    title: str  # the words people read
    better: Literal["lower", "higher", "none"] = "none"  # which direction an engineer wants it to go
    meaning: str = ""  # one sentence
    lies_when: str = ""  # the conditions under which the number misleads


def read_metrics(rows: str) -> tuple[Metric, ...]:
    """Metrics as rows: `tag unit better title`; indented below it the meaning, then `Lies when:`."""
    read = []
    for row in re.split(r"\n(?=\S)", rows.strip()):
        head, _, rest = row.partition("\n")
        tag, unit, better, title = head.split(None, 3)
        meaning, _, lies_when = " ".join(rest.split()).partition(" Lies when: ")
        about = {"tag": tag, "unit": unit, "title": title, "better": better}
        read.append(msgspec.convert({**about, "meaning": meaning, "lies_when": lies_when}, Metric))
    return tuple(read)


class Regime(StrEnum):
    """One regime; its value is the word on the command line and in stored files."""

    meaning: str  # what is timed, in a phrase for readers
    times_calls: bool  # a sample is one call; otherwise it is a block of calls, and told per call
    needs_rate: bool  # calls are made on a schedule, so somebody has to say how many per second
    needs_accelerator: bool  # only a device that keeps times of its own has it

    def __new__(
        cls,
        value: str,
        meaning: str = "",
        times_calls: bool = True,
        needs_rate: bool = False,
        needs_accelerator: bool = False,
    ) -> "Regime":
        member = str.__new__(cls, value)
        member._value_, member.meaning, member.times_calls = value, meaning, times_calls
        member.needs_rate, member.needs_accelerator = needs_rate, needs_accelerator
        return member

    ISOLATED = "isolated", "one call at a time, waiting for each"
    SATURATED = "saturated", "calls back to back, one wait at the end", False
    DEVICE = "device", "time on the device alone", True, False, True
    PACED = "paced", "calls at a fixed rate, counted from when each was due", True, True


HEADLINE_ORDER = (Regime.ISOLATED, Regime.PACED, Regime.DEVICE, Regime.SATURATED)
"""Which latency a case is known by: the first of these that was measured."""
COMPARISON_ORDER = (Regime.ISOLATED, Regime.DEVICE, Regime.SATURATED, Regime.PACED)
"""Which latencies two cases are compared by: the first of these that both have."""
THROUGHPUT_ORDER = (Regime.SATURATED, Regime.ISOLATED, Regime.DEVICE, Regime.PACED)  # of a throughput


class Label(IntFlag):
    """The known facts about one sample. Samples are labelled, never deleted."""

    NONE = 0
    WARM_UP = 1  # before the level settled
    RESUMED = 2  # first call after another case ran in this process
    WAITED = 4  # its threads were runnable but waited for a CPU (scheduler run delay)
    STOLEN = 8  # CPU time lost to the hypervisor (steal ticks, or a thread awake without it)
    THROTTLED = 16  # the container's CPU quota stopped it (cgroup nr_throttled)
    GC = 32  # Python's garbage collector ran inside it
    CLOCK = 64  # the device's clock was below its sustained level
    RECOMPILED = 128  # a compiler ran inside it
    LATE = 256  # paced: it started after its scheduled time, behind the one before
    ALONE = 512  # several instances: the others were not all at work

    @property
    def words(self) -> list[str]:
        """The single labels in readable form."""
        return [flag.name.lower().replace("_", "-") for flag in Label if flag in self and flag.name]


DISTURBED = Label.WAITED | Label.STOLEN | Label.THROTTLED | Label.CLOCK
"""Labels with a cause outside the measured program. Garbage collection is the program's own."""
UNSETTLED = Label.WARM_UP | Label.RESUMED | Label.RECOMPILED | Label.ALONE
"""Labels of samples that are not what the program settles at."""
EXCLUDED = DISTURBED | UNSETTLED  # labels whose samples a headline does not use while enough others are there
SHORTEST = 1e-12  # seconds; a time below is of a clock too coarse to see it, and its logarithm says nothing


class Series(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Samples of one metric in one case."""

    metric: Metric  # what the samples are; their unit is the metric's
    samples: list[float]  # raw values in the metric's base unit, in the order of measuring
    # isolated, saturated, device, paced; None for what has no regime (memory, FLOPs)
    regime: str | None = None
    at: list[float] = []  # start of each sample in seconds since its run started; empty when unknown
    process: list[int] = []  # index of the worker process each sample came from; empty when there is only one
    label: list[int] = []  # `Label` bits of each sample; empty when none was labelled
    calls: list[int] = []  # calls that one sample covers (saturated blocks); empty means 1 each
    # round of the schedule each sample was measured in; cases of one round are neighbours in time
    round: list[int] = []
    probe: str = ""  # instrument that made it
    clock: str = ""  # clock it was read from
    note: str = ""  # how it was measured, where that needs a word

    def __repr__(self) -> str:
        name = self.metric.tag if self.regime is None else f"{self.metric.tag}/{self.regime}"
        return f"Series({name}, {len(self.samples):,} samples in {self.metric.unit})"

    def __post_init__(self) -> None:
        """Raise ValueError if a column has another number of values than there are samples."""
        for name in ("at", "process", "label", "calls", "round"):
            column = getattr(self, name)
            if column and len(column) != len(self.samples):
                raise ValueError(f"{name} has {len(column)} values for {len(self.samples)} samples")

    @property
    def key(self) -> tuple[str, str | None]:
        """Series with equal keys in one case are parts of one series."""
        return self.metric.tag, self.regime

    def extend(self, more: "Series") -> "Series":
        """This series with another's samples behind its own.

        Optional columns missing on one side only are filled: process 0, no label, 1 call. Times cannot be
        filled: `at` stays only when both sides have it.

        Raises ValueError: the other is a series of something else."""
        if more.key != self.key or more.metric.unit != self.metric.unit:
            other = f"{more.key} in {more.metric.unit}"
            raise ValueError(f"{other} is not part of {self.key} in {self.metric.unit}")
        old, new = len(self.samples), len(more.samples)
        timed = len(self.at) == old and len(more.at) == new

        columns: dict[str, Any] = {
            "samples": self.samples + more.samples,
            "at": self.at + more.at if timed else [],
        }
        for name, fill in {"process": 0, "label": 0, "calls": 1, "round": 0}.items():
            ours, theirs = getattr(self, name), getattr(more, name)
            columns[name] = (ours or [fill] * old) + (theirs or [fill] * new) if ours or theirs else []
        return structs.replace(self, **columns, note=self.note or more.note)
