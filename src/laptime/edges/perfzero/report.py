"""Decode (and make) the files of `tf.test.Benchmark.report_benchmark` without TensorFlow.

A file is one `BenchmarkEntries` of tensorflow/core/util/test_log.proto in protobuf's wire format
(https://protobuf.dev/programming-guides/encoding):

    BenchmarkEntries  1 entry*
    BenchmarkEntry    1 name  2 iters (varint)  3 cpu_time  4 wall_time  5 throughput (doubles)
                      6 extras (map: 1 key, 2 EntryValue)  7 metrics (MetricEntry)
    EntryValue        1 double  2 string
    MetricEntry       1 name  2 value  3 min_value {1 double}  4 max_value {1 double}"""

import struct
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from laptime.edges.perfzero.schema import REPORT_PREFIX, WALL_TIME
from laptime.kit.protobuf import NUMBER, Damaged, double, fields, read_signed


class Metric(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A number with its bounds, both inclusive; its unit is known to the benchmark only."""

    name: str
    value: float
    min_value: float | None = None
    max_value: float | None = None


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One report of a benchmark method."""

    name: str = ""  # `Class.method`, or what the benchmark called it
    # iters, cpu_time, throughput: as reported; 0 is also what an unset field reads as
    iters: int = 0
    cpu_time: float = 0.0
    # as reported: mean, median or total seconds, in some benchmarks microseconds; 0 without one
    wall_time: float = 0.0
    throughput: float = 0.0
    extras: dict[str, float | str] = {}
    metrics: list[Metric] = []

    @property
    def numbers(self) -> list[Metric]:
        """The wall time, if one was reported, and the metrics; no two under one name.

        The second `loss` is called `loss#2`; so is a metric with the name of the wall time."""
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
    try:
        return [_report(_message(each)) for each in _message(data).get(1, [])]
    except Damaged as error:
        raise ValueError(str(error)) from error


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
    for metric in report.metrics:
        bounds = ((3, metric.min_value), (4, metric.max_value))
        kept = [_bytes(number, _double(1, bound)) for number, bound in bounds if bound is not None]
        entry.append(_bytes(7, b"".join([_bytes(1, metric.name.encode()), _double(2, metric.value), *kept])))
    return _bytes(1, b"".join(entry))


def _report(entry: "_Message") -> Report:
    pairs = [_message(each) for each in entry.get(6, [])]
    return Report(
        name=_text(entry, 1),
        iters=read_signed(_last(entry, 2, 0)),
        cpu_time=_float(entry, 3),
        wall_time=_float(entry, 4),
        throughput=_float(entry, 5),
        extras={_text(pair, 1): _extra(_message(_last(pair, 2, b""))) for pair in pairs},
        metrics=[_metric(_message(each)) for each in entry.get(7, [])],
    )


def _extra(value: "_Message") -> float | str:
    # An unset value is the default of its type: an empty message is 0.0.
    return _text(value, 2) if 2 in value else _float(value, 1)


def _metric(entry: "_Message") -> Metric:
    named = ((3, "min_value"), (4, "max_value"))
    bounds = {name: _float(_message(_last(entry, at, b"")), 1) for at, name in named if at in entry}
    return Metric(name=_text(entry, 1), value=_float(entry, 2), **bounds)


_Message = dict[int, list[int | bytes]]
_Value = TypeVar("_Value", int, bytes)


def _message(data: int | bytes) -> _Message:
    """Values of each field by its number."""
    if isinstance(data, int):
        raise ValueError("a field is a number, and not a message")
    message: _Message = {}
    for number, value, end in fields(data, 0, len(data)):
        message.setdefault(number, []).append(value if end == NUMBER else data[value:end])
    return message


def _last(message: _Message, number: int, default: _Value) -> _Value:
    """The value of a field that may be there once; of several the last counts."""
    value = message.get(number, [default])[-1]
    if not isinstance(value, type(default)):
        raise ValueError(f"a field is {type(value).__name__}, but {type(default).__name__} was expected")
    return value


def _float(message: _Message, number: int) -> float:
    return double(_last(message, number, 0))


def _text(message: _Message, number: int) -> str:
    return _last(message, number, b"").decode("utf-8", "replace")


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
