"""rocprof's JSON becomes the columns of any other trace. The file is made as rocprofiler's bin/sqlitedb.py
and bin/tblextr.py write it: every value a text, sections by their label, arrows in whole microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.kit.errors import UsageError
from laptime.records.profile import Profile
from laptime.trace.reading import reader
from laptime.verbs.trace import analyse

MARKS, COPIES, HIP, HSA, GPU, BARRIERS = 0, 1, 2, 3, 6, 518
LABELS = {
    MARKS: "Markers and Ranges", HIP: "CPU HIP API", HSA: "CPU HSA API", COPIES: "COPY", GPU: "GPU0",
    BARRIERS: "GPU Barriers0",
}  # fmt: skip
BEGIN = 1_048_928_000_000_000


def section(name: str, pid: int, lane: int, begin: int, took: int, **args: object) -> str:
    """One event; times in ns, its `ts` and `dur` in whole microseconds."""
    begin += BEGIN
    fields = {"BeginNs": begin, "EndNs": begin + took, "pid": 77, "tid": 78, "Name": name, **args}
    written = ",\n    ".join(f'"{key}":"{value}"' for key, value in (fields | {"DurationNs": took}).items())
    head = (
        f'"name":"{name}","pid":"{pid}","tid":"{lane}","ts":"{begin // 1000}","dur":"{max(took // 1000, 1)}"'
    )
    return f',{{"ph":"X",{head},\n  "args":{{\n    {written}\n  }}\n}}\n'


def arrow(number: int, at: int, to: int, section: int, lane: int) -> str:
    at, to = (BEGIN + at) // 1000, (BEGIN + to) // 1000
    return (
        f',{{"ts":{min(at, to)},"ph":"s","cat":"DataFlow","id":{number},"pid":{HIP},"tid":78,"name":"dep"}}\n'
        f',{{"ts":{to},"ph":"t","cat":"DataFlow","id":{number},"pid":{section},"tid":{lane},"name":"dep"}}\n'
    )


def written(path: Path) -> Path:
    """Two steps of 9 ms, each with a kernel of 2 ms behind a barrier, and a copy of 1 ms."""
    text = '{ "traceEvents":[{}\n' + "".join(
        f',{{"args":{{"name":"{label}"}},"ph":"M","pid":{pid},"name":"process_name","sort_index":{at}}}\n'
        for at, (pid, label) in enumerate(LABELS.items())
    )
    arrows = ""
    for step in range(2):
        at = step * 10_000_000
        text += section(f"step {step}", MARKS, 78, at, 9_000_000)
        text += section("__hipPushCallConfiguration", HIP, 78, at + 1_000_100, 200)
        text += section("hipLaunchKernel", HIP, 78, at + 1_000_500, 5_000, args="( kernel(gemm) stream(1))")
        text += section("hsa_signal_store_relaxed", HSA, 78, at + 1_002_000, 400)
        text += section("hipMemcpyAsync", HIP, 78, at + 4_000_000, 9_000, args="( kind(1) stream(1))")
        on_device = {"dev-id": 0, "queue-id": 0, "stream-id": 1, "Data": ""}
        text += section("gemm", GPU, 1, at + 2_000_123, 2_000_001, **on_device)
        text += section("<barrier packet>", BARRIERS, 1, at + 1_900_000, 100, **on_device)
        text += section("CopyHostToDevice", COPIES, 1, at + 5_000_000, 1_000_000, **on_device)
        arrows += arrow(2 * step, at + 1_003_000, at + 2_000_123, GPU, 1)
        arrows += arrow(2 * step + 1, at + 4_004_000, at + 5_000_000, COPIES, 1)
    path.write_text(text + arrows + '],\n"otherData": {\n    "Marketing Name": "MI250X"\n  }\n}')
    return path


@pytest.fixture
def page(tmp_path: Path) -> Profile:
    return analyse([written(tmp_path / "results.json")])


def test_steps_are_the_marked_ranges_and_times_are_nanoseconds(page: Profile) -> None:
    assert page.files[0].format == "rocprof"
    assert [step.end_ns - step.start_ns for step in page.steps] == [9_000_000] * 2
    assert [(row.name, row.calls, row.total_ns) for row in page.kernels] == [("gemm", 2, 4_000_002)]


def test_arrows_link_kernels_and_copies_to_the_calls_that_launched_them(tmp_path: Path) -> None:
    trace = reader.read(written(tmp_path / "any.json"))
    calls = dict(zip(trace.host.correlation.tolist(), trace.host.name.tolist(), strict=True))
    launched = {
        trace.texts[name]: trace.texts[calls[number]]
        for name, number in zip(trace.device.name.tolist(), trace.device.correlation.tolist(), strict=True)
    }
    assert launched == {"gemm": "hipLaunchKernel", "Memcpy HtoD": "hipMemcpyAsync"}
    assert len(set(trace.device.correlation.tolist())) == 4


def test_the_page_has_copies_and_device_and_calls_it_no_inference(page: Profile) -> None:
    assert [(row.direction, row.calls) for row in page.copies] == [("HtoD", 2)]
    assert [each.id for each in page.accelerators] == [0]
    assert page.workload is not None
    assert page.workload.kind == "unknown"


@pytest.mark.parametrize(
    "content", [b'{ "traceEvents":[{}\n],\n"otherData": {\n  }\n}', b'{ "traceEvents":[{}\n,{"ph":"X","na']
)
def test_empty_and_damaged_ones_are_refused_in_words(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="whole trace") as raised:
        reader.read(path)
    assert raised.value.why
    assert raised.value.next
