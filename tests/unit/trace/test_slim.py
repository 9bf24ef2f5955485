"""Slimmed traces: small, exact, readable by Perfetto and by laptime."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fixtures import traces
from laptime.records.overview import Overview
from laptime.trace import slim
from laptime.trace.columns import Trace
from laptime.trace.reading import reader
from laptime.trace.tables import overview
from laptime.trace.view import View, find_steps, link

Event = dict[str, Any]


def view(trace: Trace) -> View:
    joined = link(trace)
    return View(trace, joined, find_steps(trace, joined))


def parsed(events: list[Event], **top: Any) -> View:
    return view(reader.parse(json.dumps({"traceEvents": events, **top}).encode()))


def host(name: str, start: float, dur: float, cat: str = "cpu_op", /, tid: Any = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 10, "tid": tid, "ts": start, "dur": dur, "args": args}


def kernel(start: float, dur: float, correlation: int, cat: str = "kernel", /, **args: Any) -> Event:
    args = {"device": 0, "stream": 7, "correlation": correlation, **args}
    return {"ph": "X", "cat": cat, "name": "gemm", "pid": 0, "tid": 7, "ts": start, "dur": dur, "args": args}


EVENTS = [
    host("ProfilerStep#3", 1000.001, 999.999, "user_annotation"),
    host("aten::mm", 1100.123, 50.5, **{"Input Dims": [[4, 4]], "Call stack": "train.py(3): main"}),
    host("cudaLaunchKernel", 1110.002, 20, "cuda_runtime", correlation=5),
    host("cuLaunchKernel", 1140, 5.25, "cuda_driver", correlation=6),
    host("train.py(3): main", 1005, 900, "python_function", **{"Python id": 1}),
    kernel(1400.007, 200.111, 5, grid=[2, 3, 1], **{"blocks per SM": 0.25, "est. achieved occupancy %": 31}),
    kernel(1500, 200, 6, **{"registers per thread": 32, "shared memory": 1024}),
    kernel(1800, 10, 0, "gpu_memcpy", bytes=4096),
]


def document(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


def counter(path: Path, name: str) -> list[tuple[float, dict[str, float]]]:
    return [(each["ts"], each["args"]) for each in document(path)["traceEvents"] if each["name"] == name]


def plain(found: Overview) -> Overview:
    """Without what needs stacks and Python functions, which a slimmed trace does not have."""
    idle = found.idle and structs.replace(
        found.idle, causes=[structs.replace(cause, stack=[], operators=[]) for cause in found.idle.causes]
    )
    calls = [structs.replace(each, stack=[]) for each in found.synchronisations]
    return structs.replace(found, idle=idle, synchronisations=calls)


def same(before: View, after: View) -> None:
    """Device work, attribution and overview are equal to the nanosecond."""
    old, new = before.trace, after.trace
    for column in ("start", "end"):
        a = getattr(old.device, column) + old.base + old.origin
        b = getattr(new.device, column) + new.base + new.origin
        assert np.array_equal(a, b), column
    for column in ("kind", "device", "stream", "correlation", "registers", "shared_memory", "bytes", "graph"):
        assert np.array_equal(getattr(old.device, column), getattr(new.device, column)), column
    for column in ("blocks_per_sm", "occupancy"):
        assert np.array_equal(getattr(old.device, column), getattr(new.device, column), equal_nan=True), (
            column
        )
    for column in ("name", "grid", "block"):
        a, b = ([t.texts[i] if i >= 0 else "" for i in getattr(t.device, column)] for t in (old, new))
        assert a == b, column
    launchers = [
        [seen.trace.texts[seen.trace.host.name[row]] if row >= 0 else "" for row in seen.links.operator]
        for seen in (before, after)
    ]
    assert launchers[0] == launchers[1]
    assert plain(overview.overview(before)) == plain(overview.overview(after))
    assert new.accelerators == old.accelerators
    assert (new.rank, new.world) == (old.rank, old.world)


def test_laptime_reads_back_what_was_written_to_the_nanosecond(tmp_path: Path) -> None:
    top = {
        "baseTimeNanoseconds": 1_700_000_000_000_000_123,
        "deviceProperties": [
            {"id": 0, "name": "A100", "totalGlobalMem": 8, "numSms": 108, "computeMajor": 8}
        ],
        "distributedInfo": {"rank": 3, "world_size": 8, "backend": "nccl"},
        "cuda_runtime_version": 12040,
        "schemaVersion": 1,
    }
    before = parsed(EVENTS, **top)
    slim.write(before, tmp_path / "slim.json.gz")
    after = view(reader.read(tmp_path / "slim.json.gz"))
    same(before, after)
    assert after.trace.warnings == []
    assert after.trace.facts == before.trace.facts
    assert after.trace.distributed == before.trace.distributed


def test_stacks_shapes_and_python_functions_are_left_out(tmp_path: Path) -> None:
    slim.write(parsed(EVENTS), tmp_path / "slim.json")
    text = (tmp_path / "slim.json").read_text()
    assert "aten::mm" in text
    assert "train.py" not in text
    assert "Input Dims" not in text


def test_every_launch_has_an_arrow_to_its_work(tmp_path: Path) -> None:
    slim.write(parsed(EVENTS), tmp_path / "slim.json")
    flows = [each for each in document(tmp_path / "slim.json")["traceEvents"] if each["ph"] in "sf"]
    ends = {(each["ph"], each["id"]): (each["pid"], each["tid"], each["ts"]) for each in flows}
    assert len(flows) == len(ends) == 4
    origin = 1000.001
    assert ends["s", 0] == (10, 1, pytest.approx(1110.002 - origin, abs=1e-6))
    assert ends["f", 0] == (0, 7, pytest.approx(1400.007 - origin, abs=1e-6))


def test_the_queue_counts_launched_work_that_has_not_begun(tmp_path: Path) -> None:
    events = [
        host("cudaLaunchKernel", 0, 5, "cuda_runtime", correlation=1),
        host("cudaLaunchKernel", 10, 5, "cuda_runtime", correlation=2),
        kernel(30, 40, 1),
        kernel(70, 10, 2),
    ]
    slim.write(parsed(events), tmp_path / "slim.json")
    queue = counter(tmp_path / "slim.json", "cuda:0 queue length")
    assert queue == [
        (0, {"launched": 1}),
        (10, {"launched": 2}),
        (30, {"launched": 1}),
        (70, {"launched": 0}),
    ]


def test_utilisation_is_the_share_of_time_in_which_a_kernel_runs(tmp_path: Path) -> None:
    slim.write(parsed([kernel(0, 250, 1), kernel(750, 250, 2)]), tmp_path / "slim.json")
    shares = counter(tmp_path / "slim.json", "cuda:0 utilisation")
    assert shares == [(0, {"%": 100}), (250, {"%": 0}), (750, {"%": 100}), (1000, {"%": 0})]


def test_memory_totals_are_a_counter(tmp_path: Path) -> None:
    args = {
        "Device Type": 1,
        "Device Id": 0,
        "Bytes": 64,
        "Addr": 1,
        "Total Allocated": 64,
        "Total Reserved": 100,
    }
    event = {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 10,
        "tid": 1,
        "ts": 7,
        "args": args,
    }
    slim.write(parsed([host("a", 0, 10), event]), tmp_path / "slim.json")
    assert counter(tmp_path / "slim.json", "cuda:0 memory") == [
        (7, {"allocated": 64, "reserved and free": 36})
    ]


def test_hostile_names_stay_text_and_odd_threads_get_numbers(tmp_path: Path) -> None:
    name = '</script>"\\\n\ud800é'
    slim.write(
        parsed([host(name, 0, 1, tid="stream x"), host("b", 2, 1, tid="stream y")]), tmp_path / "slim.json"
    )
    events = [each for each in document(tmp_path / "slim.json")["traceEvents"] if each["ph"] == "X"]
    assert events[0]["name"].startswith('</script>"\\\n')
    assert all(isinstance(each["tid"], int) for each in events)
    assert events[0]["tid"] != events[1]["tid"]


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        slim.write(parsed(EVENTS), tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_a_trace_without_events_is_written_too(tmp_path: Path) -> None:
    slim.write(parsed([host("a", 0, 1)]), tmp_path / "slim.json")
    assert len(document(tmp_path / "slim.json")["traceEvents"]) == 2


@pytest.mark.parametrize(
    "name",
    [
        "resnet50_num_workers_0.json.gz",
        "nccl_a100.json.gz",
        "h100_vit.json.gz",
        "mi300_vit.json.gz",
        "edge/cpu_only_gloo.json.gz",
        "edge/triton.json.gz",
        "dlrm_8_ranks/worker7_step_12.1694128201553.pt.trace.json.gz",
        "plugin_unit/test_memory_view.json",
    ],
)
def test_the_overview_of_a_slimmed_trace_is_that_of_the_trace(name: str, tmp_path: Path) -> None:
    path = traces.path(name)
    before = view(reader.read(path))
    slim.write(before, tmp_path / "slim.json.gz")
    same(before, view(reader.read(tmp_path / "slim.json.gz")))
    if path.stat().st_size > 50_000:
        assert (tmp_path / "slim.json.gz").stat().st_size < path.stat().st_size * 0.8
