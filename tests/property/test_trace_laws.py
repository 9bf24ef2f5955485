"""Laws of any trace: order and clock of its events do not matter, parts sum up,
and a breakdown is what painting every microsecond by priority gives.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures import plugin as plugin_counts
from laptime.records.overview import Breakdown
from laptime.trace import names
from laptime.trace.reading import reader
from laptime.trace.tables import overview
from laptime.trace.tables.overview import totals
from laptime.trace.view import View, find_steps, link

Event = dict[str, Any]
US = 1000
END = 120
HOST = (
    ("cpu_op", "aten::mm"),
    ("cpu_op", "gloo:all_reduce"),
    ("user_annotation", "nccl:all_reduce"),
    ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    ("python_function", "train.py(1): main"),
)
CALLS = (("cuda_runtime", "cudaLaunchKernel"), ("cuda_driver", "cuLaunchKernelEx"))
DEVICE = (
    ("kernel", "volta_sgemm_64x64_nt"),
    ("kernel", "nvjet_hsh_128x256"),
    ("kernel", "ncclDevKernel_Generic"),
    ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"),
    ("gpu_memset", "Memset (Device)"),
)
RANGE = st.tuples(st.integers(0, END), st.integers(1, 30))


def event(kind: tuple[str, str], start: int, length: int, tid: int, **args: Any) -> Event:
    category, name = kind
    times = {"ts": start * US, "dur": length * US}
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": args.pop("pid", 1),
        "tid": tid,
        "args": args,
    } | times


@st.composite
def traces(draw: st.DrawFn) -> list[Event]:
    """Times are ns here; `parse` writes them as the files do. Every host range has a thread of its own."""
    events = []
    at = 0
    for number in range(draw(st.integers(0, 3))):
        at += draw(st.integers(0, 10))
        length = draw(st.integers(5, 40))
        events.append(event(("user_annotation", f"ProfilerStep#{number}"), at, length, 1))
        at += length
    for thread, (kind, (start, length)) in enumerate(
        draw(st.lists(st.tuples(st.sampled_from(HOST), RANGE), max_size=6)), 2
    ):
        events.append(event(kind, start, length, thread))
    launches = draw(
        st.lists(st.tuples(st.sampled_from(CALLS), RANGE, st.sampled_from(DEVICE), RANGE), max_size=8)
    )
    for id_, (call, (start, length), work, (delay, duration)) in enumerate(launches, 1):
        events.append(event(call, start, length, 100 + id_, correlation=id_))
        args = {"device": 0, "stream": id_, "correlation": id_, "blocks per SM": 0.5, "pid": 0}
        events.append(event(work, start + delay % 20, duration, id_, **args))
    return events


def parse(events: list[Event], shift: int = 0) -> View:
    """ts and dur are ns; written in microseconds with three decimals, exactly."""
    text = json.dumps({"traceEvents": [each | {"ts": each["ts"] + shift} for each in events]})
    text = re.sub(r'"(ts|dur)": (\d+)(\d{3})\b', r'"\1": \2.\3', text)
    text = re.sub(
        r'"(ts|dur)": (\d{1,3})(?=[,}])', lambda found: f'"{found[1]}": 0.{int(found[2]):03d}', text
    )
    trace = reader.parse(text.encode())
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


def found(view: View) -> tuple[object, ...]:
    return (
        [column.tolist() for column in view.steps],
        overview.breakdown(view),
        plugin_counts.breakdown(view),
        overview.use(view),
        totals(view.trace),
    )


@given(traces(), st.randoms(use_true_random=False))
def test_the_order_of_events_in_a_file_does_not_matter(events: list[Event], random: Any) -> None:
    shuffled = list(events)
    random.shuffle(shuffled)
    assert found(parse(shuffled)) == found(parse(events))


@given(traces(), st.sampled_from([1, 999, 1_000_003, 1_686_070_155_939_447_123]))
def test_the_clock_of_a_file_does_not_matter(events: list[Event], shift: int) -> None:
    assert found(parse(events, shift)) == found(parse(events))


@given(traces())
def test_parts_sum_to_the_step_and_none_is_negative(events: list[Event]) -> None:
    view = parse(events)
    for each in (overview.breakdown, plugin_counts.breakdown):
        parts = each(view)
        assert [one.total_ns for one in parts] == (view.steps.end - view.steps.start).tolist()
        assert all(getattr(one, name) >= 0 for one in parts for name in overview.CATEGORIES)


@given(traces())
def test_a_device_is_busy_or_idle(events: list[Event]) -> None:
    view = parse(events)
    for row in overview.use(view):
        assert row.exposed_communication_ns + row.overlapped_communication_ns == row.communication_ns
        exposed = row.compute_ns + row.exposed_communication_ns + row.exposed_copy_ns
        assert exposed + row.idle_ns == view.inside.total
        assert row.sm_efficiency is None or row.sm_efficiency <= row.utilization + 1e-12


@settings(max_examples=60)
@given(traces())
def test_a_breakdown_is_what_painting_every_microsecond_gives(events: list[Event]) -> None:
    view = parse(events)
    origin = min((each["ts"] for each in events), default=0) // US
    painted = [
        paint(events, int(start) // US + origin, int(end) // US + origin) for start, end in spans(view)
    ]
    assert overview.breakdown(view) == painted


def spans(view: View) -> list[tuple[int, int]]:
    return list(zip(view.steps.start.tolist(), view.steps.end.tolist(), strict=True))


def paint(events: list[Event], begin: int, end: int) -> Breakdown:
    """Every microsecond gets the first category that has an event there."""
    counts = dict.fromkeys(overview.CATEGORIES, 0)
    for instant in range(begin, end):
        here = {category(each) for each in events if each["ts"] <= instant * US < each["ts"] + each["dur"]}
        counts[next(name for name in overview.CATEGORIES if name in here or name == "other_ns")] += US
    return Breakdown(**counts)


def category(each: Event) -> str:
    kind, name = each["cat"], each["name"]
    if kind in ("gpu_memcpy", "gpu_memset"):
        return f"{kind.removeprefix('gpu_')}_ns"
    if kind == "kernel":
        return "communication_ns" if "nccl" in name else "kernel_ns"
    if kind in ("cuda_runtime", "cuda_driver"):
        return "runtime_ns"
    if kind == "python_function" or name.startswith("ProfilerStep"):
        return "none"
    if name.startswith("gloo:"):
        return "communication_ns"
    return "dataloader_ns" if bool(names.is_dataloader([name])[0]) else "cpu_ns"
