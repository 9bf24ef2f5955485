"""TensorFlow's profiler files: bytes made by hand, a recorded Keras fit, damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laptime import rules
from laptime.kit.errors import UsageError
from laptime.records.profile import Profile
from laptime.trace import profile
from laptime.trace.reading import reader, trace_files
from laptime.trace.reading.xplane import reading
from laptime.verbs.trace import analyse

RECORDED = Path(__file__).with_name("keras_fit.xplane.pb")
MS = 1_000_000
IDS: dict[str, int] = {}


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def number_of(name: str) -> int:
    return IDS.setdefault(name, len(IDS) + 1)


def event(name: str, start: float, end: float, **facts: int | str) -> bytes:
    """Times in ms."""
    stats = b"".join(
        field(4, field(1, number_of(key)) + field(4 if isinstance(value, int) else 5, value))
        for key, value in facts.items()
    )
    times = field(2, round(start * 1e9)) + field(3, round((end - start) * 1e9))
    return field(4, field(1, number_of(name)) + times + stats)


def line(name: str, *events: bytes) -> bytes:
    return field(3, field(2, name) + field(3, 0) + b"".join(events))


def plane(name: str, *lines: bytes, **facts: int | str) -> bytes:
    stats = b"".join(
        field(6, field(1, number_of(key)) + field(4 if isinstance(value, int) else 5, value))
        for key, value in facts.items()
    )
    texts = [field(1, number) + field(2, field(1, number) + field(2, text)) for text, number in IDS.items()]
    tables = b"".join(field(table, text) for table in (4, 5) for text in texts)
    return field(1, field(2, name) + b"".join(lines) + tables + stats)


def seen(*planes: bytes) -> Profile:
    return profile.profile(profile.view(reading.parse(b"".join(planes))))


def marked_steps() -> bytes:
    """Two steps of 10 ms: 4 ms wait on another thread, 5 ms in the function, of these 3 ms in a product."""
    loop, pool, data = [], [], []
    for number in range(2):
        at = 10 * number
        loop += [
            event("train", at, at + 10, step_num=number + 7, _r=1),
            event("step", at, at + 9, tf_function_call="notTraced-nonXla"),
            event("EagerLocalExecute: __inference_step_12", at + 0.5, at + 9),
        ]
        data += [
            event("IteratorGetNextOp::DoCompute", at, at + 4),
            event("Iterator::Root::Prefetch", at, at + 10),
        ]
        pool += [
            event("net/dense/MatMul:MatMul", at + 5, at + 8),
            event("ThreadpoolListener::Record", at, at),
        ]
    threads = [line("python", *loop), line("tf_Compute/1", *pool), line("tf_data/2", *data)]
    return plane("/host:CPU", *threads)


def test_steps_that_the_program_numbers_are_its_steps() -> None:
    found = seen(marked_steps())
    assert [step.number for step in found.steps] == [7, 8]
    assert found.overview.step_ns == 10 * MS
    assert found.device_type == "cpu"
    assert found.files[0].format == "xplane"


def test_waiting_for_data_is_told_from_computing_on_whichever_thread_it_happens() -> None:
    found = seen(marked_steps())
    assert [step.data_wait_ns for step in found.steps] == [4 * MS, 4 * MS]
    phases = {phase.name: phase.host_ns for phase in found.overview.phases}
    assert phases == {"data": 4 * MS, "compute": 5 * MS, "other": MS}
    assert found.overview.breakdown.dataloader_ns == 4 * MS
    assert found.overview.breakdown.cpu_ns == 5 * MS  # a stage of the pipeline is no work of the step


def test_an_operation_is_an_operator_by_its_type_called_from_its_place_in_the_graph() -> None:
    row = seen(marked_steps()).operators[0]
    assert (row.name, row.calls, row.host_self_ns) == ("MatMul", 2, 6 * MS)
    assert row.stacks[0].frames == ["net/dense/MatMul"]


def test_an_input_bound_program_is_told_what_to_do_about_tf_data_and_not_about_a_dataloader() -> None:
    kinds = {finding.kind for finding in rules.diagnose(seen(marked_steps()))}
    assert "trace/tf-data" in kinds
    assert not kinds & {"trace/num-workers", "trace/hidden-input"}


def calls(*starts: float, evaluated: tuple[float, ...] = ()) -> bytes:
    events = [event("EagerLocalExecute: __inference_train_5", at, at + 3) for at in starts]
    events += [event("EagerLocalExecute: __inference_test_9", at, at + 1) for at in evaluated]
    return plane("/host:CPU", line("python", *events))


def test_without_numbers_a_step_is_from_one_call_of_the_busiest_function_to_its_next() -> None:
    found = seen(calls(0, 4, 8, 13))
    assert [step.end_ns - step.start_ns for step in found.steps] == [4 * MS, 4 * MS, 5 * MS]


def test_evaluation_between_two_calls_makes_no_step() -> None:
    found = seen(calls(0, 4, 8, 20, 24, evaluated=(12, 14)))
    assert [step.number for step in found.steps] == [0, 1, 3]


def gpu() -> bytes:
    """Two steps of 10 ms; each launches a kernel of 6 ms. One copy."""
    loop, work = [], []
    details = "regs:32 static_shared:0 dynamic_shared:16 grid:4,1,1 block:128,1,1 occ_pct:50"
    for at in (0, 10):
        loop += [
            event("train", at, at + 10, step_num=at // 10),
            event("dense/MatMul:MatMul", at + 0.5, at + 2),
            event("cuLaunchKernel", at + 1, at + 1.1, correlation_id=at + 5),
        ]
        work.append(event("sgemm", at + 2, at + 8, correlation_id=at + 5, kernel_details=details))
    copied = "kind_src:pinned kind_dst:device size:4096 async:1"
    device = plane(
        "/device:GPU:0",
        line("Stream #13(Compute)", *work),
        line("Stream #14(MemcpyH2D)", event("MemcpyH2D", 1, 2, memcpy_details=copied)),
        line("Steps", event("0", 0, 10)),
        memory_size=1 << 30,
        compute_cap_major=9,
        compute_cap_minor=0,
        core_count=132,
    )
    return plane("/host:CPU", line("python", *loop)) + device


def test_work_on_a_gpu_belongs_to_the_operation_that_launched_it() -> None:
    found = seen(gpu())
    assert found.device_type == "cuda"
    assert found.accelerators[0].capability == "9.0"
    kernel = found.kernels_by_launch[0]
    assert (kernel.name, kernel.operator, kernel.total_ns, kernel.grid) == (
        "sgemm",
        "MatMul",
        12 * MS,
        "[4, 1, 1]",
    )
    assert (kernel.registers, kernel.shared_memory, kernel.occupancy) == (32, 16, 0.5)
    copied = found.copies[0]
    assert (copied.direction, copied.memory, copied.bytes) == ("HtoD", "pinned", 4096)


def test_a_keras_fit_is_read_without_tensorflow() -> None:
    found = analyse([RECORDED])
    assert found.overview.steps == 3  # five calls are four steps, and the first is warm-up
    assert found.warm_up is not None
    assert [row.number for row in found.warm_up.steps] == [0]
    assert {"_MklMatMul", "ReadVariableOp"} <= {row.name for row in found.operators}
    assert found.overview.breakdown.dataloader_ns > 0
    assert found.verdict is not None
    assert found.verdict.bound == "host"  # a step of 2 ms: TensorFlow's executor runs, an operator 29 % of it
    assert reader.read(RECORDED).facts["framework"] == "tensorflow"


def test_a_folder_of_sessions_is_its_latest_one(tmp_path: Path) -> None:
    for session in ("2026_11_21_18_40_50", "2026_11_21_19_00_01"):
        made = tmp_path / "plugins" / "profile" / session / "host.xplane.pb"
        made.parent.mkdir(parents=True)
        made.write_bytes(RECORDED.read_bytes())
    found = trace_files.find([tmp_path])
    assert [path.parent.name for path in found.paths] == ["2026_11_21_19_00_01"]
    assert ["1 earlier" in each for each in found.warnings] == [True]


@pytest.mark.parametrize("data", [b"", b'{"traceEvents": []}', b"\x0a\xff", field(1, field(2, "/host:CPU"))])
def test_what_is_no_profile_is_refused_in_three_lines(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        reader.read(path)
    assert caught.value.why
    assert caught.value.next


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="be read"):
        reader.read(tmp_path / "none.xplane.pb")


def survives(data: bytes) -> None:
    try:
        found = seen(data)
    except UsageError:
        return
    rules.diagnose(found)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_bytes_are_refused_or_read_and_never_a_crash(data: Any) -> None:
    broken = bytearray(data.draw(st.sampled_from([marked_steps(), gpu()])))
    for _ in range(data.draw(st.integers(1, 8))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    survives(bytes(broken[: data.draw(st.integers(0, len(broken)))] if data.draw(st.booleans()) else broken))


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_refused_or_read_and_never_a_crash(data: bytes) -> None:
    survives(data)
