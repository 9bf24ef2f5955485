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
from collections.abc import Iterator
from pathlib import Path

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


Field = tuple[int, int | float | bytes]


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
    return [_entry(_bytes(value)) for number, value in _fields(data) if number == 1]


def encode(report: Report) -> bytes:
    """The file that TensorFlow writes for this report."""
    extras = (
        _message(6, _text(1, key) + _message(2, _text(2, v) if isinstance(v, str) else _double(1, v)))
        for key, v in report.extras.items()
    )
    metrics = (
        _message(
            7,
            _text(1, each.name)
            + _double(2, each.value)
            + (b"" if each.min_value is None else _message(3, _double(1, each.min_value)))
            + (b"" if each.max_value is None else _message(4, _double(1, each.max_value))),
        )
        for each in report.metrics
    )
    entry = b"".join(
        (
            _text(1, report.name),
            _varint(2 << 3) + _varint(report.iters),
            _double(3, report.cpu_time),
            _double(4, report.wall_time),
            _double(5, report.throughput),
            *extras,
            *metrics,
        )
    )
    return _message(1, entry)


def _entry(data: bytes) -> Report:
    plain = {3: "cpu_time", 4: "wall_time", 5: "throughput"}
    name, iters, doubles = "", 0, dict.fromkeys(plain.values(), 0.0)
    extras: dict[str, float | str] = {}
    metrics = []
    for number, value in _fields(data):
        if number == 1:
            name = _string(value)
        elif number == 2 and isinstance(value, int):
            iters = value - (1 << 64) if value >> 63 else value
        elif number in plain:
            doubles[plain[number]] = _number(value)
        elif number == 6:
            pair = dict(_fields(_bytes(value)))
            content = dict(_fields(_bytes(pair.get(2, b""))))
            # An unset value is the default of its type: an empty message is 0.0.
            extras[_string(pair.get(1, b""))] = (
                _string(content[2]) if 2 in content else _number(content.get(1, 0.0))
            )
        elif number == 7:
            metrics.append(_metric(_bytes(value)))
    return Report(name=name, iters=iters, extras=extras, metrics=metrics, **doubles)


def _metric(data: bytes) -> Metric:
    fields = dict(_fields(data))
    bounds = {
        name: _number(dict(_fields(_bytes(fields[number]))).get(1, 0.0))
        for number, name in ((3, "min_value"), (4, "max_value"))
        if number in fields
    }
    return Metric(name=_string(fields.get(1, b"")), value=_number(fields.get(2, 0.0)), **bounds)


def _fields(data: bytes) -> Iterator[Field]:
    """Number and value of each field: an int (varint), a float (8 bytes) or bytes; 4-byte fields are skipped.
    Raises ValueError: the bytes end within a field, or hold none.
    """
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _read_varint(data, at)
            yield number, value
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
            yield number, struct.unpack("<d", part)[0] if kind == 1 else part


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


def _bytes(value: int | float | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number stands where a message should")
    return value


def _string(value: int | float | bytes) -> str:
    return _bytes(value).decode("utf-8", "replace")


def _number(value: int | float | bytes) -> float:
    if not isinstance(value, float):
        raise ValueError("a number of 8 bytes was expected")
    return value


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative ones are written as their 64-bit complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)
