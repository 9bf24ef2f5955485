"""Whatever ran where: the critical path covers its step once, from begin to end."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from laptime.trace import profile
from laptime.trace.reading import reader
from laptime.trace.tables import critical_path

moments = st.integers(0, 60)
lengths = st.integers(0, 30)
host = st.tuples(
    st.sampled_from(["aten::mm", "enumerate(DataLoader)#_Iter.__next__"]), moments, lengths, st.integers(1, 3)
)
calls = st.tuples(
    st.sampled_from(["cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpyAsync"]),
    moments,
    lengths,
    st.integers(1, 3),
    st.integers(1, 6),
)
works = st.tuples(
    st.sampled_from(["gemm", "ncclKernel", "Memcpy DtoH (Device -> Pageable)"]), moments, lengths
)
launched = st.tuples(works, st.integers(0, 1), st.integers(1, 2), st.integers(1, 6))


def event(cat: str, name: str, ts: int, dur: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


@given(st.lists(host, max_size=6), st.lists(calls, max_size=6), st.lists(launched, max_size=6))
def test_the_path_covers_its_step_once(host: list[Any], calls: list[Any], launched: list[Any]) -> None:
    events = [event("user_annotation", "ProfilerStep#1", 5, 60, 1), event("cpu_op", "aten::add", 6, 1, 1)]
    events += [event("cpu_op", name, ts, dur, tid) for name, ts, dur, tid in host]
    events += [
        event("cuda_runtime", name, ts, dur, tid, correlation=number) for name, ts, dur, tid, number in calls
    ]
    for (name, ts, dur), device, stream, number in launched:
        cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        events.append(event(cat, name, ts, dur, 7, device=device, stream=stream, correlation=number))
    view = profile.view(reader.parse(json.dumps(events).encode()))
    begin, end = int(view.steps.start[0]), int(view.steps.end[0])
    parts = critical_path.walk(view, begin, end)
    edges = [begin, *(part.end for part in parts)]
    assert [part.start for part in parts] == edges[:-1]
    assert edges[-1] == end
    assert all(part.start < part.end for part in parts)
    found = critical_path.critical_path(view)
    assert (found.total_ns if found else 0) == end - begin
    if found is not None:
        assert sum(found.kinds_ns.values()) == sum(row.total_ns for row in found.rows) == end - begin
