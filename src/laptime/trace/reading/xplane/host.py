"""Host events, their steps, and events on the streams of a GPU: those of an `.xplane.pb` as rows.

TensorFlow names an operation that it runs `layer/MatMul:MatMul`: place in the graph, type. It becomes an
operator `MatMul` that was called from `layer/MatMul`. Cheap operations have no event of their own; they are
in `ExecutorState::Process`.

A step is, in this order of preference:

1. a range with a step number (`tf.profiler.experimental.Trace("train", step_num=n, _r=1)`, and what Keras 2
   writes itself): those called train, else the most frequent ones;
2. from one call of a function to the next: of the compiled function that takes most time. Two calls between
   which an unusual number of other functions were called (evaluation, the end of an epoch) make none.

Lies when: one function holds several steps (`steps_per_execution`), or a step calls its function twice.

A GPU's plane has one line a stream, `Stream #13(Compute)`."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from laptime.trace import intervals
from laptime.trace.columns import NONE, DeviceKind, HostKind, Ints
from laptime.trace.reading.xplane.space import Event, Fact, Kind, Line, Plane

_OPERATION = re.compile(r"^([\w.][\w.\-/\\]*):([A-Za-z_]\w*)$")
_EAGER = "EagerLocalExecute: "
_FRAME = re.compile(r"^\$?(.+\.py):(\d+) (.+)$")
_MOMENT = re.compile(r"^ThreadpoolListener::")
_NAMED = re.compile(
    r"^((MultiDevice)?IteratorGetNext\w*::DoCompute$|Iterator::|MakeIterator::|Prefetch(Produce|Consume)$"
    r"|tf\.function-graph_building$)"
)
_CALL = re.compile(r"^(cu|cuda)[A-Z]\w*$")
_EXECUTOR = "ExecutorState::Process"


class Sort(NamedTuple):
    """A kind of host range, its name, and the place in the graph that it was called from."""

    kind: HostKind
    name: str
    place: str = ""


def sort(kind: Kind, facts: Mapping[str, Fact], launched: Container[object] = ()) -> Sort | None:
    """Sort this event; None if it has no duration worth showing. `launched`: correlations of the devices'
    work: a range with one of them launched it, and TensorFlow gives it the name of the kernel."""
    name = kind.name or kind.shown
    if not name or _MOMENT.match(name):
        return None
    if "tf_function_call" in facts or "step_num" in facts:
        return Sort(HostKind.ANNOTATION, name)
    if operation := _OPERATION.match(name):
        return Sort(HostKind.OPERATOR, operation[2], operation[1])
    if name.startswith(_EAGER):
        called = name.removeprefix(_EAGER)
        return Sort(HostKind.ANNOTATION if called.startswith("__") else HostKind.OPERATOR, called)
    if "correlation_id" in facts and _CALL.match(name):
        return Sort(HostKind.RUNTIME if name.startswith("cuda") else HostKind.DRIVER, name)
    if facts.get("correlation_id") in launched:
        call = (
            "cuMemcpyAsync" if "emcpy" in name else "cuMemsetAsync" if "emset" in name else "cuLaunchKernel"
        )
        return Sort(HostKind.DRIVER, call, name)
    if name == _EXECUTOR:
        return Sort(HostKind.OPERATOR, name)
    if name.startswith("$"):
        frame = _FRAME.match(name)
        return Sort(HostKind.PYTHON, f"{frame[1]}({frame[2]}): {frame[3]}" if frame else name[1:])
    return Sort(HostKind.ANNOTATION if _NAMED.match(name) else HostKind.OTHER, name)


_FUNCTION = re.compile(
    r"^EagerLocalExecute: (__(?:inference|forward)_\w+)$|^EagerLocalExecute: (?!__|IteratorGetNext)"
)
_WAITS = re.compile(r"^(MultiDevice)?IteratorGetNext\w*::DoCompute$|^EagerLocalExecute: IteratorGetNext")
OWN = "laptime::step"  # what `laptime profile` writes around its steps; they go before all others
Steps = tuple[int, str, list[tuple[int, int, int]]]
"""A line, the name of the ranges that its steps stand for, and number, start and end of each step."""


class Mark(NamedTuple):
    """A range to be added: a step, or a phase of one. Times in ns."""

    name: str
    start: int
    end: int


class StepRanges(NamedTuple):
    """The ranges to add, their line, and the name of the ranges that the steps stand for."""

    line: int
    marks: list[Mark]
    instead_of: str


def find(lines: Sequence[Line], kinds: Sequence[dict[int, Kind]]) -> StepRanges | None:
    """Steps and phases of these lines (one dictionary of kinds each); None if nothing tells a step."""
    candidates = _find_numbered(lines, kinds) or _find_called(lines, kinds)
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
        if "tf_function_call" in event.facts or _FUNCTION.match(_name(kinds[line], event))
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


def _find_numbered(lines: Sequence[Line], kinds: Sequence[dict[int, Kind]]) -> Steps | None:
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


def _find_called(lines: Sequence[Line], kinds: Sequence[dict[int, Kind]]) -> Steps | None:
    """Return ranges from each call of the function that takes most time to its next."""
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
    python = sorted((event.start, -event.end) for event in line.events if "tf_function_call" in event.facts)
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


_PLANE = re.compile(r"^/device:GPU:(\d{1,4})")
_STREAM = re.compile(r"^Stream #(\d{1,9})")
_COPY = re.compile(r"^Memcpy([HDP])2([HDP])$")
_PAIR = re.compile(r"(\w+):(\S+)")
_LARGEST = 1 << 53


def device_of(plane: Plane) -> int | None:
    """The number of the GPU; None for a plane that is none."""
    match = _PLANE.match(plane.name)
    return int(match[1]) if match else None


def properties(plane: Plane, device: int) -> dict[str, Any]:
    """Return the plane's facts about its GPU, in the form of Kineto's deviceProperties."""
    facts = plane.facts
    return {
        "id": device,
        "name": str(facts.get("device_type_string") or facts.get("device_vendor") or ""),
        "totalGlobalMem": facts.get("memory_size"),
        "computeMajor": facts.get("compute_cap_major"),
        "computeMinor": facts.get("compute_cap_minor"),
        "numSms": facts.get("core_count"),
    }


def correlations(planes: Sequence[Plane]) -> frozenset[Fact]:
    """The correlations of the work on streams."""
    lines = (line for plane in planes for line in plane.lines if _STREAM.match(line.name))
    found = (event.facts.get("correlation_id") for line in lines for event in line.events)
    return frozenset(each for each in found if each is not None)


def of_device(planes: Sequence[Plane]) -> list[Mark]:
    """The steps that TensorFlow derived itself (line `Steps` of a device), if the host shows none."""
    for plane in planes:
        events = [event for line in plane.lines if line.name == "Steps" for event in line.events]
        if events:
            names = (_name(plane.kinds, event) for event in events)
            numbers = [int(name) if name.isdecimal() else index for index, name in enumerate(names)]
            return [
                Mark(f"ProfilerStep#{number}", event.start, event.end)
                for number, event in zip(numbers, events, strict=True)
            ]
    return []


def rows(plane: Plane, device: int) -> Iterator[dict[str, Any]]:
    """Its activities as rows of `columns.DeviceWork`, with texts in place of indices.

    Lines that TensorFlow derives from the streams (`Steps`, `XLA Ops` ...) would count them twice."""
    for line in plane.lines:
        stream = _STREAM.match(line.name)
        for event in line.events if stream else ():
            kind = plane.kinds.get(event.kind)
            if stream and kind is not None:
                yield {"stream": int(stream[1]), "device": device, **_row(event, kind.name or kind.shown)}


def _row(event: Event, name: str) -> dict[str, Any]:
    facts = event.facts
    kind, launch = DeviceKind.KERNEL, _kernel_details(facts.get("kernel_details"))
    if "memcpy_details" in facts or name.startswith("Memcpy"):
        kind, launch = DeviceKind.MEMCPY, _kernel_details(facts.get("memcpy_details"))
        source, target = launch.get("kind_src", ""), launch.get("kind_dst", "")
        name = _COPY.sub(r"Memcpy \1to\2", name)
        name = f"{name} ({source} -> {target})" if source or target else name
    elif "memset_details" in facts or name.startswith("Memset"):
        kind, launch = DeviceKind.MEMSET, _kernel_details(facts.get("memset_details"))
    correlation = facts.get("correlation_id", NONE)
    return {
        "start": event.start,
        "end": event.end,
        "name": name,
        "kind": kind,
        "correlation": correlation if isinstance(correlation, int) else NONE,
        "occupancy": _number(launch.get("occ_pct"), float("nan")),
        "grid": _three(launch.get("grid", "")),
        "block": _three(launch.get("block", "")),
        "registers": int(_number(launch.get("regs"), NONE)),
        "shared_memory": int(
            _number(launch.get("static_shared"), 0) + _number(launch.get("dynamic_shared"), 0)
        )
        if "static_shared" in launch
        else NONE,
        "bytes": int(_number(launch.get("size", launch.get("num_bytes")), NONE)),
    }


def _kernel_details(details: Fact | None) -> dict[str, str]:
    """`regs:32 grid:1,1,1 block:256,1,1` as a dictionary."""
    return dict(_PAIR.findall(details)) if isinstance(details, str) else {}


def _three(text: str) -> str:
    """`4,1,1` as Kineto writes it: `[4, 1, 1]`; "" if there is nothing."""
    return f"[{text.replace(',', ', ')}]" if text else ""


def _number(text: str | None, otherwise: float) -> float:
    try:
        number = float(text) if text is not None else otherwise
    except ValueError:
        return otherwise
    return number if abs(number) < _LARGEST else otherwise
