"""What `tf.test.Benchmark.report_benchmark` leaves behind, decoded (and made) without TensorFlow.

A file is one `BenchmarkEntries` of tensorflow/core/util/test_log.proto in protobuf's wire format
(https://protobuf.dev/programming-guides/encoding):

    BenchmarkEntries  1 entry*
    BenchmarkEntry    1 name  2 iters (varint)  3 cpu_time  4 wall_time  5 throughput (doubles)
                      6 extras (map: 1 key, 2 EntryValue)  7 metrics (MetricEntry)
    EntryValue        1 double  2 string
    MetricEntry       1 name  2 value  3 min_value {1 double}  4 max_value {1 double}
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from laptime.edges.perfzero.schema import REPORT_PREFIX, WALL_TIME


class Metric(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A number with its bounds, both inclusive; its unit is known to the benchmark only."""

    name: str
    value: float
    min_value: float | None = None
    max_value: float | None = None


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One report of a benchmark method.

    Attributes:
        name: `Class.method`, or what the benchmark called it.
        wall_time: as reported: mean, median or total seconds, in some benchmarks microseconds; 0 without one.
        iters, cpu_time, throughput: as reported; 0 is also what an unset field reads as.
    """

    name: str = ""
    iters: int = 0
    cpu_time: float = 0.0
    wall_time: float = 0.0
    throughput: float = 0.0
    extras: dict[str, float | str] = {}
    metrics: list[Metric] = []

    @property
    def numbers(self) -> list[Metric]:
        """The wall time, where one was reported, and the metrics; no two under one name.

        The second `loss` is called `loss#2`; so is a metric with the name of the wall time.
        """
        wall_time = Metric(name=WALL_TIME, value=self.wall_time)
        count: dict[str, int] = {}
        numbers = []
        for each in (wall_time, *self.metrics):
            nth = count[each.name] = count.get(each.name, 0) + 1
            name = each.name if nth == 1 else f"{each.name}#{nth}"
            numbers.append(structs.replace(each, name=name))
        return numbers if self.wall_time else numbers[1:]


def read(folder: Path) -> tuple[list[Report], list[str]]:
    """All reports in a folder in the order of their making, and a sentence for every file that is none."""
    reports: list[Report] = []
    faults: list[str] = []
    for path in sorted(
        folder.glob(f"{REPORT_PREFIX}*"), key=lambda path: (path.stat().st_mtime_ns, path.name)
    ):
        try:
            entries = decode(path.read_bytes())
        except (ValueError, OSError) as error:
            faults.append(f"{path.name} is not a whole report: {error}")
            continue
        reports += entries
        if not entries:
            faults.append(f"{path.name} is empty")
    return reports, faults


def decode(data: bytes) -> list[Report]:
    """The reports in one file. Raises ValueError: it ends early, or is of another format."""
    return [_report(_fields(_checked(each, b""))) for each in _fields(data).get(1, [])]


def encode(report: Report) -> bytes:
    """The file that TensorFlow writes for this report."""
    entry = [
        _bytes(1, report.name.encode()),
        _varint(2 << 3) + _varint(report.iters),
        _double(3, report.cpu_time),
        _double(4, report.wall_time),
        _double(5, report.throughput),
    ]
    for key, extra in report.extras.items():
        content = _bytes(2, extra.encode()) if isinstance(extra, str) else _double(1, extra)
        entry.append(_bytes(6, _bytes(1, key.encode()) + _bytes(2, content)))
    for each in report.metrics:
        bounds = ((3, each.min_value), (4, each.max_value))
        kept = [_bytes(number, _double(1, bound)) for number, bound in bounds if bound is not None]
        entry.append(_bytes(7, b"".join([_bytes(1, each.name.encode()), _double(2, each.value), *kept])))
    return _bytes(1, b"".join(entry))


def _report(fields: _Fields) -> Report:
    iters = _last(fields, 2, 0)
    return Report(
        name=_text(fields, 1),
        iters=iters - (1 << 64) if iters >> 63 else iters,
        cpu_time=_last(fields, 3, 0.0),
        wall_time=_last(fields, 4, 0.0),
        throughput=_last(fields, 5, 0.0),
        extras=dict(_extra(_fields(_checked(each, b""))) for each in fields.get(6, [])),
        metrics=[_metric(_fields(_checked(each, b""))) for each in fields.get(7, [])],
    )


def _extra(pair: _Fields) -> tuple[str, float | str]:
    content = _fields(_last(pair, 2, b""))
    # An unset value is the default of its type: an empty message is 0.0.
    return _text(pair, 1), _text(content, 2) if 2 in content else _last(content, 1, 0.0)


def _metric(fields: _Fields) -> Metric:
    named = ((3, "min_value"), (4, "max_value"))
    bounds = {
        name: _last(_fields(_last(fields, number, b"")), 1, 0.0) for number, name in named if number in fields
    }
    return Metric(name=_text(fields, 1), value=_last(fields, 2, 0.0), **bounds)


_Fields = dict[int, list[int | float | bytes]]
_Value = TypeVar("_Value", int, float, bytes)


def _fields(data: bytes) -> _Fields:
    """Values of each field by its number: an int (varint), a float (8 bytes) or bytes; fields of 4 bytes are
    skipped. Raises ValueError: the bytes end within a field, or hold none.
    """
    fields: _Fields = {}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _read_varint(data, at)
            fields.setdefault(number, []).append(value)
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, at = _read_varint(data, at)
        if size is None or number == 0:
            raise ValueError(f"byte {at} begins no field")
        if at + size > len(data):
            raise ValueError(f"{size} bytes announced at byte {at}, {len(data) - at} are there")
        part = data[at : at + size]
        at += size
        if kind != 5:
            fields.setdefault(number, []).append(struct.unpack("<d", part)[0] if kind == 1 else part)
    return fields


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("it ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"the number before byte {at} has no end")


def _checked(value: int | float | bytes, default: _Value) -> _Value:
    """The value, where it is of the same type as the default."""
    if not isinstance(value, type(default)):
        raise ValueError(f"a field is {type(value).__name__} where {type(default).__name__} was expected")
    return value


def _last(fields: _Fields, number: int, default: _Value) -> _Value:
    """The value of a field that may be there once; of several the last counts."""
    return _checked(fields.get(number, [default])[-1], default)


def _text(fields: _Fields, number: int) -> str:
    return _last(fields, number, b"").decode("utf-8", "replace")


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative ones are written as their 64-bit complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)
