"""Laws of idle attribution, against a model that walks through time microsecond by microsecond."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from laptime.records.overview import Idle
from laptime.trace.reading import reader
from laptime.trace.tables import idle
from laptime.trace.view import View, find_steps, link

Event = dict[str, Any]
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"

Deed = tuple[str, int, int, int]
"""What the host does next: which deed, how long, the pause before it, how long the device works for it."""

deeds = st.lists(
    st.tuples(
        st.sampled_from(["load", "operator", "launch", "wait", "upload", "collective"]),
        st.integers(1, 12),
        st.integers(0, 6),
        st.integers(1, 25),
    ),
    min_size=1,
    max_size=14,
)


def program(host: list[Deed]) -> tuple[list[Event], int]:
    """Events of one thread and one stream: work begins 2 us after its call, or once the stream is free."""
    events, now, free = list[Event](), 0, 0
    for id_, (deed, took, pause, work) in enumerate(host, 1):
        now += pause
        match deed:
            case "load":
                events.append(on(LOADER, now, now + took))
            case "operator":
                events.append(on("aten::relu", now, now + took))
            case "collective":
                events.append(on("gloo:all_reduce", now, now + took))
            case "launch":
                begin = max(now + 2, free)
                events += [
                    on("cudaLaunchKernel", now, now + took, "cuda_runtime", correlation=id_),
                    on("k", begin, begin + work, "kernel", correlation=id_, device=0, stream=7),
                ]
                free = begin + work
            case "wait":
                took = max(took, free - now)
                events.append(on("cudaDeviceSynchronize", now, now + took, "cuda_runtime"))
            case "upload":
                begin = max(now + 2, free)
                took = max(took, begin + work - now)
                name = "Memcpy HtoD (Pageable -> Device)"
                events += [
                    on("cudaMemcpyAsync", now, now + took, "cuda_runtime", correlation=id_),
                    on(name, begin, begin + work, "gpu_memcpy", correlation=id_, device=0, stream=7),
                ]
                free = begin + work
        now += took
    end = max(now, free) + 1
    return [on("ProfilerStep#1", 0, end), *events], end


def on(name: str, start: int, end: int, cat: str = "user_annotation", **args: int) -> Event:
    tid = 7 if cat in ("kernel", "gpu_memcpy") else 1
    dur = end - start
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": tid,
        "tid": tid,
        "ts": start,
        "dur": dur,
        "args": args,
    }


def analysed(events: list[Event]) -> Idle | None:
    trace = reader.parse(json.dumps({"traceEvents": events}).encode())
    linked = link(trace)
    return idle.idle(View(trace, linked, find_steps(trace, linked)))


def by_cause(found: Idle | None) -> dict[str, int]:
    return {cause.cause: cause.total_ns for cause in found.causes} if found else {}


def walked(events: list[Event], end: int) -> dict[str, int]:
    """The definition, instant by instant."""

    def span(event: Event) -> tuple[int, int]:
        return event["ts"], event["ts"] + event["dur"]

    work = sorted((span(e), e["args"]["correlation"]) for e in events if e["cat"] in ("kernel", "gpu_memcpy"))
    if not work:
        return {}
    calls = {
        e["args"]["correlation"]: span(e) for e in events if "correlation" in e["args"] and e["tid"] == 1
    }
    busy = {at for (begin, stop), _ in work for at in range(begin, stop)}
    waits = {
        at: len(busy.intersection(range(*span(e))))
        for e in events
        if e["name"] in ("cudaDeviceSynchronize", "cudaMemcpyAsync")
        for at in [span(e)[1]]
    }

    def inside(at: int, name: str) -> bool:
        return any(e["name"] == name and span(e)[0] <= at < span(e)[1] for e in events)

    def rest(at: int) -> str:
        named = {
            "data": LOADER,
            "communication": "gloo:all_reduce",
            "synchronisation": "cudaDeviceSynchronize",
            "copy": "cudaMemcpyAsync",
        }
        return next((cause for cause, name in named.items() if inside(at, name)), "host")

    found, lead = dict[str, int](), 0
    for at in range(end):
        lead = min(lead + waits.get(at, 0), end)
        if at in busy:
            continue
        following = next((id_ for (begin, _), id_ in work if begin >= at), None)
        launched = following is not None and at >= calls[following][1]
        told = "other" if launched else rest(at)
        cause = "synchronisation" if told == "host" and lead > 0 else told
        if told not in ("other", "synchronisation"):
            lead = max(lead - 1, 0)
        found[cause] = found.get(cause, 0) + 1000
    return found


@settings(deadline=None, max_examples=150)
@given(deeds)
def test_every_instant_has_the_cause_that_the_definition_gives(host: list[Deed]) -> None:
    events, end = program(host)
    assert by_cause(analysed(events)) == walked(events, end)


@settings(deadline=None, max_examples=60)
@given(deeds, st.integers(0, 10**12), st.randoms(use_true_random=False))
def test_neither_the_clock_nor_the_order_of_events_matters(
    host: list[Deed], shift: int, chance: random.Random
) -> None:
    events, _ = program(host)
    moved = [event | {"ts": event["ts"] + shift} for event in events]
    chance.shuffle(moved)
    assert by_cause(analysed(moved)) == by_cause(analysed(events))


ranges = st.tuples(
    st.sampled_from(
        [
            ("cpu_op", "aten::add"), ("user_annotation", LOADER), ("user_annotation", "ProfilerStep#1"),
            ("user_annotation", "gloo:all_reduce"), ("cuda_runtime", "cudaLaunchKernel"),
            ("cuda_runtime", "cudaStreamSynchronize"), ("cuda_runtime", "cudaMemcpyAsync"),
            ("cpu_op", "aten::item"), ("python_function", "train.py(1): main"), ("kernel", "k"),
            ("kernel", "ncclDevKernel"), ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"),
            ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)"), ("gpu_memset", "Memset (Device)"),
            ("cpu_op", "autograd::engine::evaluate_function: MmBackward0"),
        ]
    ),
    st.integers(0, 60), st.integers(0, 20), st.integers(1, 3), st.integers(0, 5),
)  # fmt: skip


@settings(deadline=None, max_examples=200)
@given(st.lists(ranges, max_size=30))
def test_whatever_the_trace_causes_sum_to_the_time_without_work(
    drawn: list[tuple[tuple[str, str], int, int, int, int]],
) -> None:
    events = [
        {
            "ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur,
            "args": {"correlation": id_, "device": id_ % 2, "stream": tid},
        }
        for (cat, name), start, dur, tid, id_ in drawn
    ]  # fmt: skip
    if not events:
        return
    trace = reader.parse(json.dumps({"traceEvents": events}).encode())
    linked = link(trace)
    view = View(trace, linked, find_steps(trace, linked))
    found = idle.idle(view)
    steps = list(zip(view.steps.start.tolist(), view.steps.end.tolist(), strict=True))
    total = 0
    for device in set(trace.device.device.tolist()):
        own = trace.device.device == device
        spans = list(zip(trace.device.start[own].tolist(), trace.device.end[own].tolist(), strict=True))
        if any(max(low, begin) < min(high, end) for low, high in spans for begin, end in steps):
            instants = (at for begin, end in steps for at in range(begin, end, 1000))
            total += sum(1000 for at in instants if not any(low <= at < high for low, high in spans))
    assert (found.total_ns if found else 0) == total
    assert sum(by_cause(found).values()) == total
