"""The host's activities in given ranges, calls that waited for the device, and time that no event explains.

A call waits when it is

- a synchronisation (`cudaStreamSynchronize`, `hipDeviceSynchronize` ...) or frees device memory (`cudaFree`);
- a copy without `Async` in its name, other than device to device;
- an asynchronous copy to the host into pageable memory: it returns only when the copy is done;
- an asynchronous copy to the device out of pageable memory that returned after the copy had begun: such a
  copy first waits for all work of its stream (CUDA Runtime API, "API synchronization behavior").

Lies when: names of copies do not tell the memory (ROCm); then a copy to the host is taken for waiting if its
call returned after the copy's end.

No recorded event explains

- long gaps in which no thread shows anything but the annotation of the step: Python without stacks, a library
  or a file that the profiler does not see, another program on this CPU. Short gaps are what lies between two
  operators of any Python program: only those of at least `FAR`, and `MANY` times the usual gap, count;
- the profiler's own work (category `overhead`: buffers are flushed) while no operator and no call runs; what
  it does inside one on its thread, or by its name (`Activity Buffer Request`, `Instrumentation`), always.
  What the driver does there (it loads modules, it waits for a full queue) is the program's own.

Lies when: threads that were not recorded do the work; or a thread beside the loop is always in some range."""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.trace import intervals, names, phases, stacks
from laptime.trace.columns import NONE, DeviceKind, HostKind, Index, Ints, Mask
from laptime.trace.intervals import Ranges
from laptime.trace.view import View, of_host, once


class Shares(NamedTuple):
    """Host rows, the self time of each in ns, and the text (index) that names it."""

    row: Index
    name: Index
    ns: Ints


def innermost(view: View, thread: int, ranges: Ranges) -> Shares:
    """Time of the ranges by innermost operator; a runtime call counts for the operator that made it.

    Time outside operators goes to the innermost Python function, if the trace has any, else to the
    innermost annotation. Time in none of them, or in nothing but the step, is in no share."""
    host, links = view.trace.host, view.links
    rows = host.of_thread(thread)
    rows = rows[links.calls.depth[rows] >= 0]
    rows, ns = _to_themselves(view, rows, links.calls.parent, ranges)
    operator = links.operator_of[rows]
    operator[(operator >= 0) & ~phases.operators(view)[operator]] = NONE
    functions = stacks.frames_of(view)
    frames = host.of_thread(int(functions.home[thread]))
    frames = frames[host.kind[frames] == HostKind.PYTHON]
    annotation = (operator < 0) & (host.kind[rows] == HostKind.ANNOTATION)
    step = names.rows(view.trace.texts, host.name[rows], names.is_step)
    counts = ~(step & (operator < 0)) & ~(annotation & bool(len(frames)))
    name = host.name[np.where(operator >= 0, operator, rows)]
    inner = Shares(rows[counts], name[counts], ns[counts])
    if not len(frames):
        return inner
    outside = intervals.subtract(ranges, phases.cover(view, phases.at_work(view), thread))
    frames, ns = _to_themselves(view, frames, functions.around, outside)
    return Shares(
        np.append(inner.row, frames), np.append(inner.name, host.name[frames]), np.append(inner.ns, ns)
    )


def of_calls(view: View, rows: Index, cause: Index, ranges: Ranges) -> Shares:
    """Time of the ranges by these calls, each named after its cause, or after itself if it has none."""
    host = view.trace.host
    ns = intervals.within(ranges, host.start[rows], host.end[rows])
    return Shares(rows, host.name[np.where(cause >= 0, cause, rows)], ns)


def _to_themselves(view: View, rows: Index, parent: Index, ranges: Ranges) -> tuple[Index, Ints]:
    """The rows with self time inside the ranges, and that time in ns."""
    host = view.trace.host
    whole = intervals.within(ranges, host.start[rows], host.end[rows])
    rows, whole = rows[whole > 0], whole[whole > 0]
    inside = parent[rows] >= 0
    weights = whole[inside].astype(np.float64)  # exact: sums stay below 2**53 ns
    first = int(rows[0]) if len(rows) else 0  # a parent that has no time in the ranges is of no interest
    above = parent[rows[inside]] - first
    last = int(rows[-1]) - first + 1 if len(rows) else 0
    some = (above >= 0) & (above < last)
    below = np.bincount(above[some], weights[some], minlength=last)[rows - first].astype(np.int64)
    self_ns = np.asarray(whole - below, np.int64)
    return rows[self_ns > 0], self_ns[self_ns > 0]


Words = NDArray[np.str_]
_is_aten = names.matching("^aten::")
_SYNCHRONISES = re.compile(r"^(cuda|hip|cu|mtia|xpu|mu|acl)\w*Synchronize|^(cuda|hip)Free$|^cuMemFree(_v2)?$")
_COPIES = re.compile(r"^(cuda|hip|cu|mtia|xpu|mu|acl)\w*Memcpy", re.IGNORECASE)
_COPIES_LATER = re.compile(r"Async|Peer|DtoD", re.IGNORECASE)
_DIRECTIONS = {
    "HtoD": re.compile(r"HtoD|HostToDevice|\b[HM]2D\b"),
    "DtoH": re.compile(r"DtoH|DeviceToHost|\bD2[HM]\b"),
    "DtoD": re.compile(r"DtoD|DeviceToDevice|\bD2D\b"),
    "HtoH": re.compile(r"HtoH|HostToHost|\bH2H\b"),
    "PtoP": re.compile(r"PtoP|PeerToPeer|\bP2P\b"),
}


def direction(name: str) -> str:
    """HtoD, DtoH, DtoD, HtoH or PtoP by the name of a copy on the device; "" when it does not say."""
    return next((name_of for name_of, pattern in _DIRECTIONS.items() if pattern.search(name)), "")


def memory(name: str) -> str:
    """pageable or pinned: the host side of a copy; device when it has none; "" when its name is silent."""
    for kind in ("pageable", "pinned"):
        if kind in name.lower():
            return kind
    return "device" if direction(name) in ("DtoD", "PtoP") or "(Device)" in name else ""


def sorts(view: View, rows: Index) -> tuple[Words, Words]:
    """Direction and host memory of these device rows, by their names."""
    kernel_names, of = np.unique(view.trace.device.name[rows], return_inverse=True)
    texts = [view.trace.texts[name] for name in kernel_names]
    return np.array([*map(direction, texts), ""])[of], np.array([*map(memory, texts), ""])[of]


@once
def waiting(view: View) -> Index:
    """Host rows of the calls that waited for the device, ascending."""
    waits = calls(view, names.matching(_SYNCHRONISES))
    waits |= calls(view, names.matching(_COPIES)) & ~calls(view, names.matching(_COPIES_LATER))
    copies = _copies(view)
    waits[copies.launch[copies.direction == "DtoD"]] = False
    # Which copies their call waited for, whatever the call's name.
    returned = view.trace.host.end[copies.launch]
    begun, done = (
        returned >= instant[copies.row] for instant in (view.trace.device.start, view.trace.device.end)
    )
    to_host, to_device = copies.direction == "DtoH", copies.direction == "HtoD"
    pageable, unknown = copies.memory == "pageable", copies.memory == ""
    waited: Mask = (to_host & (pageable | (unknown & done))) | (to_device & pageable & begun)
    waits[copies.launch[waited]] = True
    rows = np.flatnonzero(waits)
    above = view.links.calls.parent[rows]  # a driver call inside a runtime call is the same wait
    return rows[~((above >= 0) & waits[above])].astype(np.int32)


@once
def uploads(view: View) -> Index:
    """Host rows of calls that copied to the device and were carried out by the host, or waited; ascending."""
    copies = _copies(view)
    is_upload = (copies.memory == "pageable") | np.isin(copies.launch, waiting(view))
    return np.unique(copies.launch[is_upload & (copies.direction == "HtoD")])


def culprits(view: View, rows: Index) -> Index:
    """Per host row (or NONE) the operator that caused it, as the program called it; NONE without.

    That is the innermost operator, or the outermost of the aten operators it lies in without a break:
    `aten::item` for `aten::_local_scalar_dense`, `aten::to` for `aten::copy_`."""
    return of_host(_find_called(view), rows)


@once
def _find_called(view: View) -> Index:
    """Per host row: what `culprits` names for it."""
    host, calls = view.trace.host, view.links.calls
    aten = names.rows(view.trace.texts, host.name, _is_aten)
    outermost = ~(aten & (calls.parent >= 0) & np.append(aten, False)[calls.parent])
    rows = np.where(outermost, np.arange(len(host)), NONE).astype(np.int32)
    operator = view.links.operator_of.copy()
    operator[names.rows(view.trace.texts, of_host(host.name, operator), names.is_step)] = NONE
    return of_host(intervals.inherit(calls, rows), operator)


def labels(view: View, rows: Index) -> list[str]:
    """Labels of these waits: the call, and for an asynchronous copy the memory that made it wait."""
    copies = _copies(view)
    calls = [view.trace.texts[name] for name in view.trace.host.name[rows]]
    for word, way in (("HtoD", "from"), ("DtoH", "to")):
        for at in np.flatnonzero(np.isin(rows, copies.launch[copies.direction == word])).tolist():
            if _COPIES_LATER.search(calls[at]):
                calls[at] += f" {word} {way} pageable memory"
    return calls


class _Copies(NamedTuple):
    """Copies that have a launch: device rows, host rows, and what their names say."""

    row: Index
    launch: Index
    direction: Words
    memory: Words


@once
def _copies(view: View) -> _Copies:
    kind, launch = view.trace.device.kind, view.links.launch
    rows = np.flatnonzero((kind == DeviceKind.MEMCPY) & (launch >= 0)).astype(np.int32)
    return _Copies(rows, launch[rows], *sorts(view, rows))


def calls(view: View, family: names.Family) -> Mask:
    """Return which host rows are runtime or driver calls with such a name."""
    host = view.trace.host
    column = np.where(host.is_call, host.name, np.int32(NONE))
    return host.is_call & names.rows(view.trace.texts, column, family)


_is_within_call = names.matching(r"(?i)^(activity buffer request|instrumentation|cupti resource)$")
FAR = 1_000_000
MANY = 20
"""ns, and times the usual gap, from which on a gap is long: those of `host_work` between two launches."""


@once
def find_unexplained(view: View) -> Ranges:
    """All of it from the first recorded range or step of the host to the last."""
    host = view.trace.host
    known = (host.kind != HostKind.OVERHEAD) & (host.kind != HostKind.OTHER)
    shown = known & ~phases.find_rows(view, names.is_step)
    if not shown.any():
        return intervals.EMPTY
    covered = intervals.of(host, shown)
    first, last = int(host.start[known].min()), int(host.end[known].max())
    gaps = intervals.gaps(covered, first, last)
    length = gaps.end - gaps.start
    usual = int(np.median(length)) if len(length) > MANY else 0
    is_open = (gaps.start == first) | (gaps.end == last)  # in the first or last step: nobody saw all of it
    long = length >= np.where(is_open, FAR, max(FAR, MANY * usual))
    return intervals.join(Ranges(gaps.start[long], gaps.end[long]), profiling(view))


@once
def profiling(view: View) -> Ranges:
    """The profiler's own work while no operator and no call runs, or in which they wait for it."""
    host, texts, working = view.trace.host, view.trace.texts, phases.at_work(view)
    own = (host.kind == HostKind.OVERHEAD) & ~names.rows(texts, host.name, names.is_driver_overhead)
    within = own & names.rows(texts, host.name, _is_within_call)
    for thread in intervals.distinct(host.thread[own]).tolist():  # by any name: its own thread waits for it
        rows = np.flatnonzero(own & (host.thread == thread))
        inside = intervals.within(phases.cover(view, working, thread), host.start[rows], host.end[rows])
        within[rows] |= inside > 0
    flushing = intervals.of(host, own)
    flushing = intervals.subtract(flushing, intervals.of(host, working))
    return intervals.join(flushing, intervals.of(host, within))
