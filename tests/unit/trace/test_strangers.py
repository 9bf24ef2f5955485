"""Files of strangers: times that cannot be, other tools' traces, steps that do not touch."""

from __future__ import annotations

import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fixtures.kineto import A100
from fixtures.memory_snapshots import MIB, action, block, frame, written
from laptime import rules
from laptime.kit.errors import UsageError
from laptime.records.profile import Profile
from laptime.rules import _reading, _verdict
from laptime.trace import names, profile
from laptime.trace.reading import reader
from laptime.verbs.trace import analyse

Event = dict[str, Any]


def host(name: str, at: float, took: float, cat: str = "cpu_op", **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": at, "dur": took, "args": args}


def work(name: str, at: Any, took: Any, number: int, cat: str = "kernel") -> Event:
    args = {"correlation": number, "device": 0, "stream": 7}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": at, "dur": took, "args": args}


def launched(at: float, took: float, number: int, *, delay: float = 5, call: float = 6) -> list[Event]:
    """An operator, its launch, and a kernel `delay` after the call."""
    return [
        host("aten::mm", at, call + 14),
        host("cudaLaunchKernel", at + 10, call, "cuda_runtime", correlation=number),
        work("ampere_sgemm_128x64_tn", at + 10 + call + delay, took, number),
    ]


def steps(
    number: int = 6,
    *,
    every: float = 1000,
    lasts: float = 1000,
    kernels: int = 10,
    took: float = 60,
    spread: float = 0,
    **more: Any,
) -> list[Event]:
    """Steps of even operators, over all of the step or its first `spread` us."""
    events = []
    for step in range(number):
        begin = 5000 + step * every
        events.append(host(f"ProfilerStep#{step}", begin, lasts, "user_annotation"))
        for each in range(kernels):
            at = begin + 5 + each * (spread or lasts - 20) / kernels
            events += launched(at, took, 1 + step * kernels + each, **more)
    return events


def read(events: list[Event]) -> Profile:
    data = {"deviceProperties": [{"id": 0, **A100}], "traceEvents": events}
    found = profile.profile(profile.view(reader.parse(json.dumps(data).encode())))
    assert found.overview.step_ns
    return found


def kinds(found: Profile) -> list[str]:
    return [each.kind.removeprefix("trace/") for each in rules.diagnose(found)]


def moved(events: list[Event], us: float) -> list[Event]:
    return [{**each, "ts": each["ts"] + us} if each["cat"] == "kernel" else each for each in events]


@pytest.mark.parametrize("apart", [-300_000_000, -10_000_000, -3_000, 40_000_000])
def test_clocks_that_are_apart_are_brought_together_and_said(apart: float) -> None:
    right, found = read(steps()), read(moved(steps(), apart))
    assert "host and device 0" in found.files[0].warnings[0]
    (use,), (true,) = found.overview.devices, right.overview.devices
    assert use.utilization == pytest.approx(true.utilization, abs=0.02)
    assert found.span_ns == pytest.approx(right.span_ns, rel=0.02)


def test_clocks_are_apart_although_most_work_waits_in_a_long_queue() -> None:
    """Half of the work begins before its launch, half after it."""
    events = steps(took=190)
    for step in range(6):
        works = [each for each in events if each["cat"] == "kernel"][step * 10 : step * 10 + 10]
        for before, each in itertools.pairwise(works):
            each["ts"] = max(each["ts"], before["ts"] + before["dur"] + 1)
    found = read(moved(events, -400))
    assert "clocks of host and device 0 are 391 us apart" in found.files[0].warnings[0]
    assert found.overview.devices[0].utilization == pytest.approx(
        read(events).overview.devices[0].utilization, abs=0.02
    )


def test_clocks_that_agree_are_left_alone() -> None:
    assert read(steps()).files[0].warnings == []


def test_work_that_overruns_the_next_on_its_stream_is_cut() -> None:
    events = steps()
    events[3]["dur"] = 1_600_000
    found = read(events)
    assert "same stream" in found.files[0].warnings[0]
    assert found.overview.devices[0].utilization < 0.7
    assert found.overview.totals.device_span_ns < 10_000_000


@pytest.mark.parametrize(("at", "took"), [(0, 0), (None, None), (0.0, 0.0), ("N/A", "N/A"), (6000.0, None)])
def test_work_without_times_is_missing_and_not_nothing(at: Any, took: Any) -> None:
    events = steps()
    for each in [event for event in events if event["cat"] == "kernel"][::2]:
        each["ts"], each["dur"] = at, took
    found = read(events)
    assert "30 events without" in found.files[0].warnings[0]
    assert "30 of 60 launches" in _verdict.verdict(found).sentence
    assert kinds(found) == ["incomplete"]


def test_work_of_no_length_is_missing_where_it_is_no_rounding() -> None:
    events = steps()
    for each in [event for event in events if event["cat"] == "kernel"][::2]:
        each["dur"] = 0
    found = read(events)
    assert "30 events without" in found.files[0].warnings[0]
    assert kinds(found) == ["incomplete"]
    events[3]["dur"] = 0
    few = [{**each, "dur": each["dur"] or 3} for each in events]
    few[3]["dur"] = 0
    assert read(few).files[0].warnings == []


def test_idle_time_between_steps_that_do_not_touch_is_none_of_theirs() -> None:
    found = read(steps(every=5000))
    assert found.overview.idle is not None
    assert found.overview.idle.total_ns < 6 * 400_000 + 6_000
    assert found.overview.step_ns == pytest.approx(1_000_000, rel=0.01)
    assert found.overview.between_ns == pytest.approx(5 / 6 * 4_000_000, rel=0.01)
    assert "between-steps" in kinds(found)
    assert "77 % of all" in _verdict.verdict(found).sentence
    assert "between-steps" not in kinds(read(steps()))


def test_what_is_not_recorded_is_one_figure_in_verdict_and_table() -> None:
    """Eight short operators at the begin of a step, then nothing: in the last step as in those before it."""
    found = read(steps(5, every=50_000, lasts=10_000, kernels=8, took=900, spread=8_000))
    assert found.overview.idle is not None
    causes = {each.cause: each.total_ns / 5e7 for each in found.overview.idle.causes}
    assert causes["unrecorded"] == pytest.approx(0.19, abs=0.02)
    assert causes["host"] < 0.08
    said = _verdict.verdict(found).sentence
    assert f"{causes['unrecorded']:.0%} of it was not recorded".replace("%", " %") in said
    shares = _verdict.shares(found)
    assert sum(shares.values()) == pytest.approx(1)
    assert _reading.share(found, _reading.unrecorded(found)) <= shares["unknown"] + 1e-9
    assert found.critical_path is not None
    assert 0.15 < found.critical_path.kinds_ns["unrecorded"] / found.critical_path.total_ns < 0.3


@pytest.mark.parametrize("kernels", [5, 16, 30])
def test_few_even_launches_are_launching_and_no_other_work(kernels: int) -> None:
    events = steps(lasts=kernels * 40 + 20, every=kernels * 40 + 25, kernels=kernels)
    for each in events:
        each["dur"] = 5 if each["cat"] == "kernel" else each["dur"]
    assert kinds(read(events))[0] == "host-bound"


def test_a_first_launch_that_loads_a_module_is_initialisation() -> None:
    first = launched(1000, 300, 1, call=1_300_000)
    rest = [event for at in range(40) for event in launched(1_302_000 + at * 100, 60, at + 2)]
    found = read([*first, *rest])
    assert "initialisation (cudaLaunchKernel)" in _verdict.verdict(found).sentence
    assert kinds(found)[0] == "initialisation"
    assert not any(each.gain for each in rules.diagnose(found))


@pytest.mark.parametrize("name", ["Activity Buffer Request", "Buffer Flush"])
def test_what_the_profiler_does_inside_a_launch_is_not_the_operators(name: str) -> None:
    first = launched(1000, 17, 1, call=1900)
    request = host(name, 1020, 1850, "overhead")
    found = read(
        [*first, request, *(event for at in range(5) for event in launched(3000 + 50 * at, 17, at + 2))]
    )
    causes = {each.cause: each.total_ns for each in found.overview.idle.causes}
    assert causes["unrecorded"] == pytest.approx(1_850_000, rel=0.01)
    assert "initialisation" not in kinds(found)


@pytest.mark.parametrize(
    "name",
    ["matmul_k(float*, float*, int)", "void gemm_kernel(const float*, int)", "flash_fwd(float *, int)"],
)
def test_somebodys_own_kernel_uses_no_tensor_cores_for_its_name(name: str) -> None:
    assert not names.uses_tensor_cores([name]).any()
    assert names.unknown([name]).all()


def test_sgemm_without_operators_is_float32() -> None:
    found = read([each for each in steps(kernels=12) if each["cat"] != "cpu_op"])
    assert "fp32-matmul" in kinds(found)


def test_a_model_that_is_moved_is_no_batch() -> None:
    def copy(at: float, number: int) -> list[Event]:
        return [
            host("cudaMemcpyAsync", at, 20, "cuda_runtime", correlation=number),
            work("Memcpy HtoD (Pageable -> Device)", at + 2, 15, number, "gpu_memcpy"),
        ]

    upload = [event for at in range(100) for event in copy(1000 + 25 * at, 1000 + at)]
    once = read([*upload, *(event for at in range(20) for event in launched(4000 + 100 * at, 60, at + 1))])
    assert "pageable-copies" not in kinds(once)
    batches = [event for step in range(6) for event in copy(5400 + step * 1000, 2000 + step)]
    assert "pageable-copies" in kinds(read([*steps(kernels=4), *batches]))


def test_a_byte_order_mark_loses_no_header() -> None:
    data = json.dumps({"deviceProperties": [{"id": 0, **A100}], "traceEvents": steps()}).encode()
    assert reader.parse(b"\xef\xbb\xbf" + data).accelerators[0].name == A100["name"]


def test_another_tools_trace_is_refused_by_what_it_lacks() -> None:
    event = {"ph": "X", "name": "NEGOTIATE_ALLREDUCE", "ts": 1, "dur": 5, "pid": 1, "tid": 0}
    with pytest.raises(UsageError, match="not a PyTorch") as raised:
        reader.parse(json.dumps({"traceEvents": [event]}).encode())
    assert "neither operators" in raised.value.why
    assert "NEGOTIATE_ALLREDUCE" in raised.value.why


@pytest.mark.parametrize(
    "event",
    [
        {"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 1, "pid": 1, "tid": 0},
        {"ph": "i", "name": "sched_switch", "ts": 1, "pid": 1, "s": "t"},
    ],
)
def test_another_tools_trace_without_a_range_is_refused(event: Event) -> None:
    with pytest.raises(UsageError, match="not a PyTorch") as raised:
        reader.parse(json.dumps({"traceEvents": [event], "displayTimeUnit": "ms"}).encode())
    assert "1 event" in raised.value.why
    assert reader.parse(json.dumps({"schemaVersion": 1, "traceEvents": [event]}).encode())


def test_nsights_own_diagnostic_is_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE StringIds(id int, value text)")
        file.execute("CREATE TABLE META_DATA_EXPORT(name text, value text)")
        file.execute("CREATE TABLE DIAGNOSTIC_EVENT(severity int, text text)")
        file.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES(2, 'CUDA profiling was not started.')")
    with pytest.raises(UsageError) as raised:
        reader.read(path)
    assert "Nsight Systems" in raised.value.why
    assert "--trace=cuda" in raised.value.next


UNWIND = [frame("??", 0, "torch::unwind::unwind()"), frame("??", 0, "torch::CapturedTraceback::gather(bool)")]


def test_memory_is_told_by_its_holder_and_never_by_the_unwinder(tmp_path: Path) -> None:
    gradient = [*UNWIND, frame("??", 0, "torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)")]
    forward = [*UNWIND, frame("/home/ada/model.py", 10, "forward")]
    adam = [*UNWIND, frame("/env/site-packages/torch/optim/adam.py", 5, "_init_group")]
    made = {1: (100, gradient), 2: (50, forward), 3: (200, adam)}
    record = [action("alloc", size, at, at, stack) for at, (size, stack) in made.items()]
    record.append({"action": "oom", "size": 900 * MIB, "time_us": 9, "frames": forward})
    blocks = [block(size, at, "active_allocated", stack) for at, (size, stack) in made.items()]
    blocks.append(block(650, 7, "active_allocated"))
    segment = {"device": 0, "address": 1, "total_size": 1000 * MIB, "stream": 0, "blocks": blocks}
    found = analyse([written(tmp_path, {"segments": [segment], "device_traces": [record]})])
    assert dict(found.memory[0].holders) == {
        "older than the record": 650 * MIB,
        "optimizer": 200 * MIB,
        "gradients": 100 * MIB,
        "activations": 50 * MIB,
    }
    assert found.verdict is not None
    assert "the record 65 %" in found.verdict.sentence
    assert not any("unwind" in row.operator for row in found.memory[0].live)
    assert "900 MiB (activations, ada/model.py(10): forward)" in found.files[0].warnings[0]
