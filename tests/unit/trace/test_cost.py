"""No shape of a trace costs many times what a plain one of as many events does.

Each of these shapes took a minute or did not end: what climbs, pairs or scans once a row, a level or a thread
shows here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from laptime.trace import profile, ranks
from laptime.trace.reading import reader

Events = Iterator[dict[str, Any]]
NUMBER = 24_000


def call(name: str, ts: float, dur: float, cat: str = "cpu_op", tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launched(number: int, ts: float, tid: int = 1) -> Events:
    yield call("cudaLaunchKernel", ts, 1, "cuda_runtime", tid, correlation=number)
    yield call("k", ts + 1, 2, "kernel", 7, correlation=number, device=0, stream=7)
    args = {"Bytes": 512, "Addr": number, "Device Type": 1, "Device Id": 0, "Total Allocated": 512}
    yield {"ph": "i", "name": "[memory]", "pid": 1, "tid": tid, "ts": ts, "args": args}


def plain() -> Events:
    for n in range(NUMBER // 4):
        yield call(f"op{n % 50}", n * 10, 8)
        yield from launched(n, n * 10 + 1)


def operators_that_cross() -> Events:
    for n in range(NUMBER // 4):
        yield call(f"op{n % 50}", n * 10, 15)
        yield from launched(n, n * 10 + 11)


def deeply_nested_operators() -> Events:
    for n in range(NUMBER // 4000):
        yield from (call(f"op{d}", n * 1e6 + d, 1e5 - 2 * d) for d in range(3000))
        for d in range(250):
            yield from launched(n * 250 + d, n * 1e6 + 3000 + d)


def deep_stacks_of_functions() -> Events:
    for n in range(NUMBER // 4000):
        frames = (call(f"a.py({d}): f", n * 1e6 + d, 1e5 - 2 * d, "python_function") for d in range(3000))
        yield from frames
        for d in range(250):
            yield from launched(n * 250 + d, n * 1e6 + 3000 + d)


def many_threads() -> Events:
    for n in range(NUMBER // 4):
        yield call("aten::mm", n * 10, 8, tid=n % 400)
        yield from launched(n, n * 10 + 1, tid=n % 400)


def corners_in_texts() -> Events:
    yield from (call("x }, { y" * 20, n * 10, 8) for n in range(NUMBER))


def odd_types() -> Events:
    for n, event in enumerate(plain()):
        yield event | {"args": event["args"] | {"stream": [7]}} if n % 200 == 0 else event


def seconds(shape: Callable[[], Events]) -> float:
    """CPU time of one event."""
    events = list(shape())
    data = json.dumps(events).encode()
    begun = time.process_time()
    view = profile.view(reader.parse(data))
    profile.profile(view)
    ranks.share(view)
    return (time.process_time() - begun) / len(events)


@cache
def seconds_of_plain(attempt: int) -> float:
    """The same for all shapes."""
    return seconds(plain)


@pytest.mark.parametrize(
    "shape",
    [
        operators_that_cross,
        deeply_nested_operators,
        deep_stacks_of_functions,
        many_threads,
        corners_in_texts,
        odd_types,
    ],
)
def test_a_shape_costs_no_more_than_a_few_plain_ones(shape: Callable[[], Events]) -> None:
    # What grows with its square is never below; a busy machine may double one of the two.
    assert any(seconds(shape) < 8 * seconds_of_plain(attempt) for attempt in range(3))
