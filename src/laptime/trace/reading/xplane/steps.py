"""Where a step begins and ends, and which parts of it wait for data or compute: rows for the loop's thread.

A step is, in this order of preference:

1. a range with a step number (`tf.profiler.experimental.Trace("train", step_num=n, _r=1)`, and what Keras 2
   writes itself): those called train, else the most frequent ones;
2. from one call of a function to the next: of the compiled function that takes most time. Two calls between
   which an unusual number of other functions were called (evaluation, the end of an epoch) make none.

Lies when: one function holds several steps (`steps_per_execution`), or a step calls its function twice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from laptime.trace import intervals
from laptime.trace.columns import Ints
from laptime.trace.reading.xplane.space import Event, Kind, Line

_FUNCTION = re.compile(r"^EagerLocalExecute: (__(?:inference|forward)_\w+)$")
_CALL = re.compile(rf"{_FUNCTION.pattern}|^EagerLocalExecute: (?!__|IteratorGetNext)")
_WAITS = re.compile(r"^(MultiDevice)?IteratorGetNext\w*::DoCompute$|^EagerLocalExecute: IteratorGetNext")

OWN = "laptime::step"
"""What `laptime profile` writes around its steps; they go before all others."""


Steps = tuple[int, str, list[tuple[int, int, int]]]
"""A line, the name of the ranges that its steps stand for, and number, start and end of each step."""


class Mark(NamedTuple):
    """A range to be added: a step, or a phase of one. Times in ns."""

    name: str
    start: int
    end: int


class StepRanges(NamedTuple):
    """What is added, to which line, and the name of the ranges that the steps stand for."""

    line: int
    marks: list[Mark]
    instead_of: str


def find(lines: Sequence[Line], kinds: Sequence[dict[int, Kind]]) -> StepRanges | None:
    """Steps and phases of these lines (one dictionary of kinds each); None where nothing tells a step."""
    candidates = _numbered(lines, kinds) or _called(lines, kinds)
    if candidates is None:
        return None
    line, name, steps = candidates
    marks = [Mark(f"ProfilerStep#{number}", start, end) for number, start, end in steps]
    # Reading the next element may happen on a thread of tf.data, while the loop's thread waits for it.
    waits = [
        event
        for each, line_kinds in zip(lines, kinds, strict=True)
        for event in each.events
        if _WAITS.match(_name(line_kinds, event))
    ]
    computes = [
        event
        for event in lines[line].events
        if "tf_function_call" in event.facts or _CALL.match(_name(kinds[line], event))
    ]
    for phase, events in (("data", waits), ("compute", computes)):
        ranges = intervals.union(*_columns([(event.start, event.end) for event in events]))
        inside = intervals.intersect(ranges, intervals.union(*_columns([step[1:] for step in steps])))
        for start, end in zip(inside.start.tolist(), inside.end.tolist(), strict=True):
            marks.append(Mark(f"laptime::{phase}", start, end))
    return StepRanges(line, marks, name)


def _name(kinds: dict[int, Kind], event: Event) -> str:
    kind = kinds.get(event.kind)
    return kind.name if kind else ""


def _numbered(lines: Sequence[Line], kinds: Sequence[dict[int, Kind]]) -> Steps | None:
    """Ranges with a number: those called train, else the most frequent ones, by start."""
    numbered = defaultdict[tuple[int, str], list[tuple[int, int, int]]](list)
    for at, line in enumerate(lines):
        for event in line.events:
            number = event.facts.get("step_num")
            if isinstance(number, int) and number >= 0:
                numbered[at, _name(kinds[at], event)].append((number, event.start, event.end))
    if not numbered:
        return None
    at, name = max(numbered, key=lambda key: (key[1] == OWN, key[1] == "train", len(numbered[key]), -key[0]))
    return at, name, sorted(numbered[at, name], key=lambda step: step[1:])


def _called(lines: Sequence[Line], kinds: Sequence[dict[int, Kind]]) -> Steps | None:
    """From each call of the function that takes most time to its next."""
    durations = defaultdict[tuple[int, str], int](int)
    for at, line in enumerate(lines):
        for event in line.events:
            if match := _FUNCTION.match(_name(kinds[at], event)):
                durations[at, match[1]] += event.end - event.start
    if not durations:
        return None
    at, chosen = max(durations, key=lambda key: durations[key])
    calls, others = list[tuple[int, int]](), list[int]()
    for event in lines[at].events:
        match = _FUNCTION.match(_name(kinds[at], event))
        if match and match[1] == chosen:
            calls.append((event.start, event.end))
        elif match:
            others.append(event.start)
    calls = _whole(sorted(calls), lines[at])
    if len(calls) == 1:
        return at, "", [(0, *calls[0])]
    earlier = np.searchsorted(np.sort(np.array(others, np.int64)), [start for start, _ in calls])
    between = np.diff(earlier)
    usual = int(np.median(between))
    steps = [
        (number, start, stop)
        for number, ((start, _), (stop, _)) in enumerate(pairwise(calls))
        if between[number] == usual
    ]
    return at, "", steps or [(0, calls[0][0], calls[-1][1])]


def _whole(calls: Sequence[tuple[int, int]], line: Line) -> list[tuple[int, int]]:
    """The outermost calls in Python that these calls of compiled functions lie in, themselves without."""
    python = sorted((each.start, -each.end) for each in line.events if "tf_function_call" in each.facts)
    outer = list[tuple[int, int]]()
    for start, end in python:
        if not outer or -end > outer[-1][1]:
            outer.append((start, -end))
    ranges = []
    for call in calls:
        place = bisect_right(outer, call[0], key=lambda each: each[0]) - 1
        ranges.append(outer[place] if place >= 0 and call[1] <= outer[place][1] else call)
    return ranges


def _columns(ranges: Sequence[tuple[int, int]]) -> tuple[Ints, Ints]:
    table = np.array(ranges, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
