"""Files that report_benchmark leaves: read as TensorFlow writes them, and refused when they are not whole."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.edges.perfzero.report import Metric, Report, decode, encode, read

texts = st.text(max_size=20)
numbers = st.floats(allow_nan=False)
reports = st.builds(
    Report,
    name=texts,
    iters=st.integers(-(2**63), 2**63 - 1),
    cpu_time=numbers,
    wall_time=numbers,
    throughput=numbers,
    extras=st.dictionaries(texts, st.one_of(texts, numbers), max_size=4),
    metrics=st.lists(
        st.builds(
            Metric,
            name=texts,
            value=numbers,
            min_value=st.none() | numbers,
            max_value=st.none() | numbers,
        ),
        max_size=4,
    ),
)


@given(reports)
def test_what_is_written_is_read_back(report: Report) -> None:
    assert decode(encode(report)) == [report]


@given(reports, st.data())
def test_a_file_that_ends_early_is_refused_or_has_no_entry(report: Report, data: st.DataObject) -> None:
    whole = encode(report)
    cut = data.draw(st.integers(0, len(whole) - 1))
    if cut == 0:
        assert decode(b"") == []
    else:
        with pytest.raises(ValueError, match=r"\w"):
            decode(whole[:cut])


@given(st.binary(max_size=200))
def test_noise_never_raises_anything_but_a_value_error(noise: bytes) -> None:
    try:
        decode(noise)
    except ValueError:
        return


def test_the_wire_format_is_that_of_test_log_proto() -> None:
    entry = bytes.fromhex(
        "0a0854696e792e6f6e65"  # 1: "Tiny.one"
        "10ffffffffffffffffff01"  # 2: -1 as a varint of ten bytes
        "21000000000000e03f"  # 4: 0.5
        "3a190a0372707311000000000000f03f1a0909000000000000e03f"  # 7: rps 1.0, min 0.5
    )
    assert decode(b"\x0a" + bytes([len(entry)]) + entry) == [
        Report(
            name="Tiny.one", iters=-1, wall_time=0.5, metrics=[Metric(name="rps", value=1.0, min_value=0.5)]
        )
    ]


def test_an_extra_without_content_is_zero_and_nan_is_kept() -> None:
    pair = b"\x0a\x01a\x12\x00"
    entry = b"\x32" + bytes([len(pair)]) + pair
    assert decode(b"\x0a" + bytes([len(entry)]) + entry)[0].extras == {"a": 0.0}
    assert math.isnan(decode(encode(Report(wall_time=math.nan)))[0].wall_time)


def test_a_folder_is_read_in_the_order_of_reporting(tmp_path: Path) -> None:
    for index, name in enumerate(("zeta", "alpha")):
        path = tmp_path / f"proto_{name}"
        path.write_bytes(encode(Report(name=name)))
        os.utime(path, ns=(index * 10**9, index * 10**9))
    (tmp_path / "proto_cut").write_bytes(encode(Report(name="cut"))[:3])
    (tmp_path / "other").write_bytes(b"not ours")
    found, faults = read(tmp_path)
    assert [each.name for each in found] == ["zeta", "alpha"]
    assert len(faults) == 1
    assert "proto_cut" in faults[0]


def test_tensorflow_reads_what_we_write() -> None:
    pb2 = pytest.importorskip("tensorflow.core.util.test_log_pb2")
    entries = pb2.BenchmarkEntries()
    report = Report(
        name="Tiny.one",
        iters=-1,
        wall_time=0.25,
        extras={"model": "B0", "batch": 8.0},
        metrics=[Metric(name="rps", value=4.0, min_value=1.0), Metric(name="ms", value=2.0, max_value=9.0)],
    )
    entries.ParseFromString(encode(report))
    assert decode(entries.SerializeToString()) == [report]
    assert entries.entry[0].extras["model"].string_value == "B0"
