"""Any Kineto trace, whole or damaged, becomes columns with every nanosecond in place."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laptime.kit.errors import UsageError
from laptime.trace import profile
from laptime.trace.columns import DeviceKind, HostKind, Trace
from laptime.trace.reading import decode, parallel_decode, reader, stream


def event(name: str, start: Any, took: Any = 10, cat: str = "cpu_op", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": took, **more}


def document(*events: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": list(events), **more}, indent=1).encode()


def names(trace: Trace) -> list[str]:
    return [trace.texts[index] for index in trace.host.name]


def test_times_start_at_zero_and_the_origin_keeps_the_clock() -> None:
    trace = reader.parse(document(event("b", 1_000_100, 5), event("a", 1_000_000, 50)))
    assert names(trace) == ["a", "b"]
    assert trace.host.start.tolist() == [0, 100_000]
    assert trace.host.end.tolist() == [50_000, 105_000]
    assert trace.origin == 1_000_000_000


@pytest.mark.parametrize(
    "stamp",
    ["4458677009853.422", "8796093022207.999", "8796093022208.001", "1712195495505582.988", "0.001", "17"],
)
def test_a_time_written_with_nanoseconds_keeps_them(stamp: str) -> None:
    text = (
        b'{"traceEvents": [{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%s,"dur":0.001},'
        b'{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":%s,"dur":1}]}'
    ) % (stamp.encode(), stamp.encode())
    trace = reader.parse(text)
    whole, _, fraction = stamp.partition(".")
    assert trace.origin == int(whole) * 1000 + int(fraction or 0)
    assert sorted((trace.host.end - trace.host.start).tolist()) == [1, 1000]


def test_kinds_of_all_formats_and_accelerators_are_known() -> None:
    host = ("Operator", "cpu_op", "user_annotation", "Runtime", "cuda_runtime", "mtia_runtime", "xpu_runtime")
    more = ("cuda_driver", "Python", "python_function", "overhead", "something_new")
    device = ("Kernel", "kernel", "mtia_ccp_events", "Memcpy", "gpu_memcpy", "Memset", "gpu_memset")
    every = (*host, *more, *device)
    trace = reader.parse(document(*(event(cat, at, cat=cat) for at, cat in enumerate(every))))
    kinds = {trace.texts[n]: HostKind(k).name for n, k in zip(trace.host.name, trace.host.kind, strict=True)}
    assert kinds == {
        "Operator": "OPERATOR", "cpu_op": "OPERATOR", "user_annotation": "ANNOTATION", "Runtime": "RUNTIME",
        "cuda_runtime": "RUNTIME", "mtia_runtime": "RUNTIME", "xpu_runtime": "RUNTIME",
        "cuda_driver": "DRIVER", "Python": "PYTHON", "python_function": "PYTHON", "overhead": "OVERHEAD",
        "something_new": "OTHER",
    }  # fmt: skip
    work = {
        trace.texts[n]: DeviceKind(k).name for n, k in zip(trace.device.name, trace.device.kind, strict=True)
    }
    assert list(work.values()) == ["KERNEL"] * 3 + ["MEMCPY"] * 2 + ["MEMSET"] * 2
    assert set(work) == set(device)


def test_a_kernel_brings_its_launch_configuration() -> None:
    args = {
        "device": 3, "stream": 7, "correlation": 42, "blocks per SM": 2.5, "est. achieved occupancy %": 33,
        "grid": [4, 106, 1], "block": [128, 1, 1], "registers per thread": 30, "shared memory": 64,
        "Collective name": "allreduce", "In msg nelems": 10, "dtype": "Float", "Group size": 2,
    }  # fmt: skip
    device = reader.parse(
        document(event("k", 5, cat="kernel", args=args), event("m", 1, cat="kernel"))
    ).device
    assert device.device.tolist() == [1, 3]  # the first says nothing of its device but its process
    row = 1
    assert (device.stream[row], device.correlation[row], device.registers[row]) == (7, 42, 30)
    assert (device.blocks_per_sm[row], device.occupancy[row], device.shared_memory[row]) == (2.5, 33, 64)
    assert np.isnan(device.blocks_per_sm[0])
    assert device.collective.tolist() == [-1, 0]


def test_shapes_are_read_under_both_of_their_names() -> None:
    trace = reader.parse(
        document(
            event("a", 0, args={"Input Dims": [[1]]}),
            event("b", 20, args={"Input dims": [[2]]}),
            event("c", 40),
        )
    )
    shapes = [trace.texts[index] if index >= 0 else "" for index in trace.host.shapes]
    assert [names(trace), shapes] == [["a", "b", "c"], ["[[1]]", "[[2]]", ""]]


def test_phases_of_no_use_are_known_and_cost_no_event() -> None:
    others = [{**event("x", 5), "ph": phase} for phase in "BECbenItTpFNDOPRcvV(),"]
    trace = reader.parse(document(event("a", 0), *others))
    assert (names(trace), trace.events, trace.warnings) == (["a"], 1 + len(others), [])


def test_one_thread_written_as_number_and_as_text_is_one_thread() -> None:
    trace = reader.parse(document(event("a", 0), {**event("b", 20), "tid": "1"}))
    assert len(trace.threads) == 1
    assert trace.host.thread.tolist() == [0, 0]


def test_the_outer_of_two_equal_ranges_comes_first() -> None:
    rows = [
        event("call", 0, cat="cuda_runtime"),
        event("op", 0),
        event("step", 0, cat="user_annotation"),
        event("frame", 0, cat="python_function"),
    ]
    assert names(reader.parse(document(*rows))) == ["frame", "step", "op", "call"]


def test_a_bare_list_is_a_trace() -> None:
    assert names(reader.parse(json.dumps([event("a", 0)]).encode())) == ["a"]


def test_what_stands_around_the_events_is_read_before_and_behind_them() -> None:
    gpu = {"id": 2, "name": "H100", "totalGlobalMem": 8, "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    text = b'{"deviceProperties": [%s], "traceEvents": [%s], "distributedInfo": {"rank": 3, "world_size": 8}}'
    trace = reader.parse(text % (json.dumps(gpu).encode(), json.dumps(event("a", 0)).encode()))
    assert trace.accelerators[0][:4] == (2, "H100", 8, (9, 0))
    assert (trace.rank, trace.world, trace.truncated) == (3, 8, False)


def test_formats_are_told_apart() -> None:
    arrow = {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 0, "name": "x"}
    assert reader.parse(document(event("a", 0, cat="Operator"))).format == "A"
    assert reader.parse(document(event("a", 0), {**arrow, "cat": "async_cpu_to_gpu"})).format == "B"
    assert reader.parse(document(event("a", 0), {**arrow, "cat": "ac2g"})).format == "C"
    assert reader.parse(document(event("a", 0), baseTimeNanoseconds=5)).format == "D"


def test_a_file_cut_off_in_an_event_keeps_what_came_before() -> None:
    whole = document(*(event(f"op{n}", n * 20) for n in range(50)))
    trace = reader.parse(whole[: whole.index(b'"op40"') + 3])
    assert len(trace.host) == 40
    assert trace.truncated
    assert "the middle" in trace.warnings[0]
    assert not any("be read" in warning for warning in trace.warnings)


def test_a_gzip_file_cut_off_keeps_what_came_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = document(*(event(f"op{n}", int(rng.integers(1 << 40))) for n in range(20_000)))
    path = tmp_path / "a.json.gz"
    packed = gzip.compress(whole)
    path.write_bytes(packed[: len(packed) // 2])
    trace = reader.read(path)
    assert 5_000 < len(trace.host) < 15_000
    assert trace.truncated


def test_bare_words_and_control_characters_do_not_stop_it() -> None:
    text = document(event("a", 0, args={"blocks per SM": 1}), event("b", 20), event("c\x01d", 40))
    text = text.replace(b'"blocks per SM": 1', b'"blocks per SM": N/A, "x": -Infinity, "y": [nan]')
    text = text.replace(b"\\u0001", b"\x01").replace(b'"b"', b'"b\xff"')
    trace = reader.parse(text)
    assert names(trace) == ["a", "b�", "c d"]
    assert trace.warnings == []


def test_an_event_of_nonsense_is_left_out_and_told() -> None:
    text = document(event("a", 0), event("b", 20), event("c", 40))
    text = text.replace(b'"name": "b"', b'"name": "b" oops')
    trace = reader.parse(text)
    assert names(trace) == ["a", "c"]
    assert ["1 event " in each for each in trace.warnings] == [True]


def test_fields_of_odd_types_are_as_good_as_missing() -> None:
    odd = event(
        "a", "12", 3, args={"Sequence number": "77", "stream": None, "Input Dims": [[1]], "Addr": "x"}
    )
    trace = reader.parse(document(odd, event("b", 40, None, pid=None)))
    assert sorted(names(trace)) == ["a", "b"]
    row = names(trace).index("a")
    assert trace.host.sequence[row] == 77
    assert trace.texts[trace.host.shapes[row]] == "[[1]]"


def test_absurd_times_are_left_out_and_told() -> None:
    week = 8 * 86_400 * 10**6
    trace = reader.parse(
        document(event("a", 0), event("long", 1, week), event("back", 5, -3), event("z", 10**30))
    )
    assert names(trace) == ["a"]
    assert ["3 events" in each for each in trace.warnings] == [True]


def test_corners_inside_texts_and_lists_do_not_cut_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BLOCK", 64)
    rows = [
        event('x }, { "ph": "X"', n * 20, args={"list": [{"a": 1}, {"b": 2}], "t": "}, {"}) for n in range(9)
    ]
    trace = reader.parse(document(*rows, tail=[{"a": 1}, {"b": [{}]}]))
    assert len(trace.host) == 9
    assert trace.warnings == []


@pytest.mark.parametrize("block", [16, 100, 1000, 5000])
def test_the_size_of_blocks_changes_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = document(*(event(f"op{n % 7}", n * 3, args={"correlation": n}) for n in range(60)), traceName="x")
    whole = reader.parse(text)
    monkeypatch.setattr(stream, "BLOCK", block)
    cut = reader.parse(text)
    assert names(cut) == names(whole)
    assert cut.host.correlation.tolist() == whole.host.correlation.tolist()
    assert (cut.warnings, cut.truncated) == ([], False)


def test_several_processes_read_what_one_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LARGE", 1)
    path = tmp_path / "a.json"
    rows = [event(f"op{n % 7}", n * 3.001, tid=n % 3, args={"Input Dims": [[n % 5]]}) for n in range(3000)]
    path.write_bytes(document(*rows, distributedInfo={"rank": 1}))
    one, three = reader.read(path, processes=1), reader.read(path, processes=3)
    parts = parallel_decode.read(path, path.stat().st_size, 3, exact=False)
    assert parts is not None
    assert len(parts) == 3
    for field in ("start", "end", "thread"):
        assert np.array_equal(getattr(one.host, field), getattr(three.host, field))
    assert names(one) == names(three)
    assert [one.texts[i] for i in one.host.shapes] == [three.texts[i] for i in three.host.shapes]
    assert (three.rank, three.events, three.size) == (1, one.events, one.size)


def test_a_cut_in_the_wrong_place_makes_one_process_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "LARGE", 1)
    path = tmp_path / "a.json"
    trap = 'x }, {"ph": "X"}, {' * 40
    path.write_bytes(document(event("a", 0), event(trap, 20), event("b", 40)))
    assert parallel_decode.read(path, path.stat().st_size, 2, exact=False) is None
    assert names(reader.read(path, processes=2)) == ["a", trap, "b"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"{}", "traceEvents"),
        (b"hello", "traceEvents"),
        (b'{"schema": "laptime.run/1"}', "traceEvents"),
    ],
)
def test_what_is_no_trace_is_told_in_three_lines(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        reader.read(path)
    assert str(path) in raised.value.what
    assert why in raised.value.why
    assert raised.value.next


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="be read"):
        reader.read(tmp_path / "none.json")


def test_numbers_written_as_texts_and_nulls_are_typed_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    # ROCm writes the bytes of copies so: events of a whole chunk went field by field for it.
    monkeypatch.setattr(decode, "_coerce", None)
    copy = event("Memcpy HtoD", 0, cat="gpu_memcpy", args={"bytes": "616", "stream": None, "device": "2"})
    trace = reader.parse(document(copy, event("a", 20, args={"correlation": None})))
    assert trace.device.bytes.tolist() == [616]
    assert trace.device.device.tolist() == [2]


def test_an_odd_event_does_not_slow_down_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [event(f"op{n}", n * 20) for n in range(2000)]
    rows[900] = event("odd", 900 * 20, cat="kernel", args={"stream": [7], "bytes": 5})
    coerced = []
    whole = decode._coerce
    monkeypatch.setattr(
        decode, "_coerce", lambda value, **more: coerced.append(value) or whole(value, **more)
    )
    trace = reader.parse(document(*rows))
    assert [value["name"] for value in coerced] == ["odd"]
    assert trace.device.bytes.tolist() == [5]
    assert (len(trace.host), trace.warnings) == (1999, [])


def test_a_large_file_with_an_odd_event_is_read_once(tmp_path: Path) -> None:
    rows = [event(f"op{n}", n * 20, args={"x": "y" * 100}) for n in range(4000)]
    rows[3900] = event("odd", 3900 * 20, cat="kernel", args={"stream": [7], "y": "N/A"})
    path = tmp_path / "large.json"
    path.write_bytes(document(*rows).replace(b'"N/A"', b"N/A"))
    parts = parallel_decode.read(path, path.stat().st_size, 2, exact=False)
    assert parts is not None
    assert sum(part.events for part in parts) == 4000


@pytest.mark.parametrize(
    "args",
    [
        b'{"Input Dims":' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    ],
)
def test_an_event_nested_too_deeply_is_left_out_and_told(args: bytes) -> None:
    whole = document(event("before", 1), event("odd", 2, args="ARGS"), event("after", 3))
    assert b'"ARGS"' in whole
    trace = reader.parse(whole.replace(b'"ARGS"', args))
    assert names(trace) == ["before", "after"]
    assert "1 event" in trace.warnings[0]


def test_a_head_nested_too_deeply_is_passed_over() -> None:
    deep = b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"," + document(event("only", 1))[1:]
    assert names(reader.parse(deep)) == ["only"]


def test_numbers_of_texts_take_32_bits_before_they_are_joined() -> None:
    text = document(event("a", 1, args={"Input Dims": [[1]]}), event("cudaFree", 2, cat="cuda_runtime"))
    part = parallel_decode.gather_all(stream.Cut(io.BytesIO(text).read))
    numbered = ("name", "shapes", "types", "stack", "module")
    assert {part.column(f"host.{name}").dtype for name in numbered} == {np.dtype(np.int32)}


@pytest.mark.parametrize("field", ["ts", "dur"])
def test_a_time_that_no_float_holds_is_left_out_and_told(field: str) -> None:
    trace = reader.parse(document(event("ok", 1), event("odd", 2) | {field: 10**400}))
    assert names(trace) == ["ok"]
    assert len(trace.warnings) == 1


def test_negative_registers_are_unknown() -> None:
    kernel = event("k", 1, cat="kernel", args={"registers per thread": -72, "shared memory": -5})
    trace = reader.parse(document(kernel))
    assert trace.device.registers.tolist() == trace.device.shared_memory.tolist() == [-1]
    assert profile.profile(profile.view(trace)).kernels_by_launch[0].calls == 1


def test_what_is_no_list_of_events_is_an_error() -> None:
    for text in (b"[1,2,3]", b'["a"]', b'[{"a": 1}, {"b": 2}]', b'{"traceEvents": [[1]]}', b"[ null ]"):
        with pytest.raises(UsageError, match="not a PyTorch"):
            reader.parse(text)
    assert reader.parse(b"[]").events == 0
