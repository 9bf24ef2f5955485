"""Whatever happens to a file, the reader answers with a trace or with one clear error."""

from __future__ import annotations

import contextlib
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from laptime.kit.errors import UsageError
from laptime.trace.reading import reader

ROWS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 10.5, "dur": 4.25,
     "args": {"Input Dims": [[2, 3], []], "Call stack": "a.py(1): f;b.py(2): g", "Sequence number": 4}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 11, "dur": 2,
     "args": {"correlation": 5}},
    {"ph": "X", "cat": "kernel", "name": "k<1>", "pid": 0, "tid": 7, "ts": 12, "dur": 3,
     "args": {"correlation": 5, "grid": [1, 1, 1], "blocks per SM": 0.5}},
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 12,
     "args": {"Bytes": 4, "Addr": 140046054457344, "Device Type": 1}},
    {"ph": "s", "cat": "fwdbwd", "id": 3, "name": "fwdbwd", "pid": 1, "tid": 1, "ts": 11},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "ts": 0, "args": {"name": "main"}},
]  # fmt: skip
WHOLE = json.dumps({"schemaVersion": 1, "traceEvents": ROWS * 5, "traceName": "x"}, indent=1).encode()

damage = st.lists(
    st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 40), st.binary(max_size=12)), min_size=1, max_size=6
)


def damaged(strokes: list[tuple[int, int, bytes]]) -> bytes:
    text = WHOLE
    for at, gone, instead in strokes:
        text = text[:at] + instead + text[at + gone :]
    return text


@given(damage)
@settings(max_examples=400, deadline=None)
def test_a_damaged_file_is_read_or_refused(strokes: list[tuple[int, int, bytes]]) -> None:
    try:
        trace = reader.parse(damaged(strokes))
    except UsageError:
        return
    assert (trace.host.end >= trace.host.start).all()
    assert trace.events <= 40


@given(st.integers(0, len(WHOLE)))
@settings(max_examples=150, deadline=None)
def test_a_file_cut_anywhere_keeps_every_whole_event(at: int) -> None:
    text = WHOLE[:at]
    try:
        trace = reader.parse(text)
    except UsageError:
        assert b'"traceEvents": [' not in text
        return
    separator = b"\n  },\n  {"
    assert trace.events >= text.count(separator)
    assert trace.truncated or b"\n ]" in text


@given(st.integers(1, 400), st.binary(max_size=8))
@settings(max_examples=60, deadline=None)
def test_a_damaged_gzip_file_is_read_or_refused(cut: int, instead: bytes) -> None:
    packed = gzip.compress(WHOLE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json.gz"
        path.write_bytes(packed[: max(2, len(packed) - cut)] + instead)
        with contextlib.suppress(UsageError):
            assert reader.read(path).events <= 40


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)
keys = st.sampled_from([*{key for row in ROWS for key in row}])
argument_names = st.sampled_from([*{key for row in ROWS for key in row.get("args", {})}])  # type: ignore[attr-defined]
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XisfMC") | values},
    optional={"args": st.dictionaries(argument_names, values, max_size=4)},
).flatmap(lambda base: st.dictionaries(keys, values, max_size=5).map(lambda more: {**more, **base}))


@given(st.lists(events, max_size=6))
@settings(max_examples=300, deadline=None)
def test_events_with_fields_of_any_type_are_read(rows: list[dict[str, Any]]) -> None:
    try:
        trace = reader.parse(json.dumps({"traceEvents": rows}).encode())
    except UsageError:  # none of them is an event
        assert rows
        return
    assert trace.events <= len(rows)
    assert not trace.truncated
