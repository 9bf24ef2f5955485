"""Ranges lie in each other by thread and time, also where they cross."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from laptime.trace import intervals, view
from laptime.trace.columns import Host, Trace
from laptime.trace.reading import reader


def trace(*rows: tuple[str, int, int], tid: int = 1, cat: str = "cpu_op") -> Trace:
    events = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start}
        for name, start, end in rows
    ]
    return reader.parse(json.dumps(events).encode())


def parents(found: Trace) -> dict[str, str]:
    tree = intervals.calls(found.host)
    name = [found.texts[index] for index in found.host.name]
    return {name[row]: name[tree.parent[row]] if tree.parent[row] >= 0 else "" for row in tree.rows}


def test_a_range_lies_in_the_innermost_one_around_it() -> None:
    found = parents(trace(("a", 0, 100), ("b", 10, 50), ("c", 20, 30), ("d", 60, 70), ("e", 200, 210)))
    assert found == {"a": "", "b": "a", "c": "b", "d": "a", "e": ""}


def test_touching_ranges_are_siblings_and_an_instant_belongs_to_what_begins_there() -> None:
    found = parents(trace(("a", 0, 10), ("b", 10, 20), ("now", 10, 10)))
    assert found == {"a": "", "b": "", "now": "b"}


def test_crossing_ranges_do_not_stop_it() -> None:
    found = parents(trace(("a", 0, 10), ("b", 5, 15), ("c", 11, 12), ("d", 16, 17)))
    assert found == {"a": "", "b": "a", "c": "b", "d": ""}


def test_threads_do_not_hold_each_other() -> None:
    one, two = (
        trace(("a", 0, 100)),
        {"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 2, "ts": 5, "dur": 5},
    )
    assert len(one.host) == 1
    both = [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 100}, two]
    assert parents(reader.parse(json.dumps(both).encode())) == {"a": "", "b": ""}


ranges = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), max_size=14)


def by_hand(host: Host) -> list[int]:
    """The later of the ranges before it that begin at or before its start and end after it."""
    found = []
    for row in range(len(host)):
        around = [
            other
            for other in range(row)
            if host.thread[other] == host.thread[row]
            and host.end[other] != host.start[other]
            and host.end[other] > host.start[row]
        ]
        found.append(max(around, default=-1))
    return found


@given(ranges)
def test_parents_are_those_found_by_looking_at_every_pair(rows: list[tuple[int, int]]) -> None:
    found = trace(*((f"{n}", start, start + took) for n, (start, took) in enumerate(rows)))
    tree = intervals.calls(found.host)
    expected = by_hand(found.host)
    # Ranges of no length hold nothing, except their twins.
    for row, parent in enumerate(expected):
        own = int(tree.parent[row])
        if own >= 0 and found.host.end[own] == found.host.start[own]:
            continue
        assert own == parent


@given(ranges, st.lists(st.integers(-1, 2), min_size=14, max_size=14))
def test_descendants_ancestors_and_groups_are_those_found_by_climbing(
    rows: list[tuple[int, int]], picks: list[int]
) -> None:
    host = trace(*((f"{n}", start, start + took) for n, (start, took) in enumerate(rows))).host
    tree = intervals.calls(host)
    number = len(host)
    ancestors = [list(climbed(tree, row)) for row in range(number)]
    group = np.array(picks[:number], np.int32)
    within = intervals.subtrees(tree)
    values = np.arange(1, number + 1) ** 2
    sums = [
        sum(int(values[each]) for each in range(number) if row in [each, *ancestors[each]])
        for row in range(number)
    ]
    assert within.rows.tolist() == list(range(number))
    assert within.sums(values).tolist() == sums
    outer = [group[row] >= 0 and group[row] not in group[ancestors[row]] for row in range(number)]
    assert within.outermost(group).tolist() == outer
    nearest = [
        next((each for each in [row, *ancestors[row]] if group[each] >= 0), -1) for row in range(number)
    ]
    own = np.where(group >= 0, np.arange(number), -1).astype(np.int32)
    assert intervals.inherit(tree, own).tolist() == nearest
    later = [
        next((each for each in ancestors[row] if host.end[each] > host.end[row]), -1) for row in range(number)
    ]
    assert intervals.outlasting(host, tree).tolist() == later


def climbed(tree: intervals.RangeTree, row: int) -> Iterator[int]:
    """Ancestors, innermost first."""
    while (row := int(tree.parent[row])) >= 0:
        yield row


def rows_of_a_launch(**kernel: Any) -> list[dict[str, Any]]:
    return [
        {"ph": "X", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 1, "ts": 0, "dur": 50},
        {"ph": "X", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 1, "ts": 10, "dur": 20},
        {"ph": "X", "cat": "user_annotation", "name": "mark", "pid": 1, "tid": 1, "ts": 11, "dur": 15},
        {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 1, "tid": 1, "ts": 12, "dur": 3,
         "args": {"correlation": 7, "External id": 1}},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 40, "dur": 3,
         "args": {"External id": 99, **kernel}},
    ]  # fmt: skip


def test_a_kernel_belongs_to_the_operator_around_its_launch_whatever_its_external_id() -> None:
    found = reader.parse(json.dumps(rows_of_a_launch(correlation=7)).encode())
    linked = view.link(found)
    name = [found.texts[index] for index in found.host.name]
    assert name[linked.launch[0]] == "cuLaunchKernel"
    assert name[linked.operator[0]] == "inner"


def test_a_kernel_without_a_launch_belongs_to_nobody() -> None:
    for args in ({}, {"correlation": 8}):
        found = reader.parse(json.dumps(rows_of_a_launch(**args)).encode())
        linked = view.link(found)
        assert linked.launch.tolist() == [-1]
        assert linked.operator.tolist() == [-1]


def test_a_trace_without_host_or_without_device_links_nothing() -> None:
    only_device = reader.parse(json.dumps(rows_of_a_launch(correlation=7)[-1:]).encode())
    assert view.link(only_device).operator.tolist() == [-1]
    only_host = reader.parse(json.dumps(rows_of_a_launch()[:-1]).encode())
    assert len(view.link(only_host).launch) == 0
    assert np.array_equal(view.link(only_host).operator_of >= 0, [True, True, True, True])
