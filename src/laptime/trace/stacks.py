"""Where in the Python program something was called: call stacks, innermost frame first.

From the Python functions around it, if the trace has any there, else from the `Call stack` of the operator
(`with_stack` up to torch 1.11; later ones write it if they are told to be verbose, and then both say the
same). Functions that differ only by the address of an object or the number of a module are one place."""

import re
from typing import NamedTuple

import numpy as np

from laptime.trace import intervals, names
from laptime.trace.columns import NONE, Host, HostKind, Index, Ints, Mask, Rows, Trace
from laptime.trace.view import View, once

MODULE = "nn.Module: "  # how the name of a Python function begins that is the call of a module
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"_\d+$")


class Frames(NamedTuple):
    """Call stacks and Python functions of a trace."""

    # per host row: its `Call stack`, an index into texts; NONE without, and for `ProfilerStep#N`, whose stack
    # is where the step began
    own: Index
    told: bool  # there is any
    around: Index  # per host row: the innermost Python function around it, a host row; NONE without
    place: Ints  # per host row: equal for equal stacks of Python functions around it, 0 without
    # per index into `Trace.texts` of a Python function's name: the frame that it stands for
    texts: dict[int, str]
    # per thread the one whose functions are its own. That is itself, but where no thread with other ranges
    # has functions (files that put them all in process 0, thread 0), the thread that they fit best has them:
    # the one whose ranges lie in the most of them.
    home: Index


def stack_of(view: View, row: int) -> list[str]:
    """Frames around a host row, innermost first; empty if the trace does not say."""
    trace, frames = view.trace, frames_of(view)
    names, at = list[str](), int(frames.around[row])
    while at >= 0:
        names.append(frames.texts[int(trace.host.name[at])])
        at = int(frames.around[at])
    at = NONE if names else int(row)
    while at >= 0:
        if frames.own[at] >= 0:
            return [frame for frame in str(trace.texts[frames.own[at]]).split(";") if frame]
        at = int(view.links.calls.parent[at])
    return names


def places(view: View, rows: Rows) -> Ints:
    """A number per host row: rows with equal numbers have equal stacks; 0 means no stack."""
    frames, parent = frames_of(view), view.links.calls.parent
    place = frames.place[rows]
    todo = np.flatnonzero(place == 0) if frames.told else np.empty(0, np.int64)
    at = np.array(rows)
    while len(todo):
        written = frames.own[at[todo]]
        place[todo] = written + 1
        at[todo] = parent[at[todo]]
        todo = todo[(written < 0) & (at[todo] >= 0)]
    return place


def enclosing(view: View, take: Mask) -> Index:
    """Per host row the innermost of these Python functions around it, itself excluded; NONE without."""
    return _enclosing(view.trace, intervals.build(view.trace.host, take), frames_of(view).home)


@once
def frames_of(view: View) -> Frames:
    """Call stacks and Python functions of the trace."""
    trace, host = view.trace, view.trace.host
    tree = intervals.build(host, host.kind == HostKind.PYTHON)
    texts = {int(name): _frame(trace.texts[name]) for name in np.unique(host.name[tree.rows])}
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts.values()), 1)}
    number = np.zeros(len(trace.texts), np.uint64)
    for name, text in texts.items():
        number[name] = numbers[text]
    chain = np.zeros(len(host) + 1, np.uint64)  # the last one is NONE: no function around
    for rows in intervals.levels(tree):
        mixed = (chain[tree.parent[rows]] + number[host.name[rows]]) * np.uint64(0x9E3779B97F4A7C15)
        chain[rows] = mixed ^ (mixed >> np.uint64(29))
    home = _home(trace, tree)
    around = _enclosing(trace, tree, home)
    tells = np.array([bool(text) for text in trace.texts] + [False], bool)[host.stack]
    tells &= ~names.rows(trace.texts, host.name, names.is_step)
    written = np.where(tells, host.stack, NONE).astype(np.int32)
    return Frames(written, bool(tells.any()), around, chain[around].astype(np.int64), texts, home)


def _home(trace: Trace, tree: intervals.RangeTree) -> Index:
    """`Frames.home`."""
    host = trace.host
    home = np.arange(len(trace.threads), dtype=np.int32)
    functions = _by_thread(host, tree.rows)
    others = _by_thread(host, np.flatnonzero(host.kind != HostKind.PYTHON)) if functions else {}
    if not others or functions.keys() & others.keys():
        return home
    apart = max(functions, key=lambda thread: len(functions[thread]))
    above = intervals.outlasting(host, tree)
    fits = {
        thread: len(np.unique(_innermost(host, above, functions[apart], rows)))
        for thread, rows in others.items()
    }
    home[max(fits, key=lambda thread: fits[thread])] = apart
    return home


def _enclosing(trace: Trace, tree: intervals.RangeTree, home: Index) -> Index:
    """The parents of the functions in this tree, and for all other rows the innermost of them around it."""
    host, enclosing, above = trace.host, tree.parent.copy(), intervals.outlasting(trace.host, tree)
    functions = _by_thread(host, tree.rows)
    if not functions:
        return enclosing
    other = np.ones(len(host), bool)
    other[tree.rows] = False
    for thread, rows in _by_thread(host, np.flatnonzero(other)).items():
        block = functions.get(int(home[thread]))
        if block is not None:
            enclosing[rows] = _innermost(host, above, block, rows)
    return enclosing


def _by_thread(host: Host, rows: Rows) -> dict[int, Rows]:
    """Ascending rows, split."""
    first = np.flatnonzero(np.diff(host.thread[rows], prepend=NONE))
    return {int(host.thread[part[0]]): part for part in np.split(rows, first[1:]) if len(part)}


def _innermost(host: Host, above: Index, functions: Rows, rows: Rows) -> Index:
    """For every row the innermost of one thread's functions around it: the last to begin, or the nearest
    above it (`intervals.outlasting`) that lasts as long."""
    last = np.searchsorted(host.start[functions], host.start[rows], side="right") - 1
    innermost = np.where(last >= 0, functions[last], NONE).astype(np.int32)
    todo = np.flatnonzero(innermost >= 0)
    while len(todo):
        todo = todo[host.end[innermost[todo]] < host.end[rows[todo]]]
        innermost[todo] = above[innermost[todo]]
        todo = todo[innermost[todo] >= 0]
    return innermost


def _frame(name: str) -> str:
    """A function's name in stacks: without the address of its object, without the number of its module."""
    name = _ADDRESS.sub("", name)
    return _NUMBER.sub("", name) if name.startswith(MODULE) else name
