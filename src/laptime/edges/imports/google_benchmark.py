"""google/benchmark's JSON (`--benchmark_out_format=json`): one run a file, one case a benchmark.

A repetition is a sample: the mean time of its iterations by the wall clock. If only aggregates were kept,
the median stands for them. Counters come along as plain numbers."""

import math
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.edges.imports import _records
from laptime.records.case import Axis, Case
from laptime.records.run import Run

TOOL = "google/benchmark"
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_OWN = ("real_time", "cpu_time", "iterations", "threads", "repetitions")
"""Numbers that are no counter of the author's, beside those that end in `_index`."""
_OLD_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y/%m/%d-%H:%M:%S")


def matches(document: Any) -> bool:
    """Whether this looks like one."""
    if not isinstance(document, dict) or not isinstance(document.get("context"), dict):
        return False
    known = document.get("benchmarks")
    return isinstance(known, list) and any(isinstance(each, dict) and _tells(each) for each in known)


def _tells(entry: dict[str, Any]) -> bool:
    """Whether it has a time, or says why not; fits of complexity (`_BigO`, `_RMS`) have neither."""
    return bool({"real_time", "error_occurred", "skipped"} & entry.keys())


def runs(document: Any, path: Path) -> list[Run]:
    """The run of a file."""
    context = document["context"]
    machine = _records.environment(host=context.get("host_name"), cpus=context.get("num_cpus"))
    named: dict[str, list[dict[str, Any]]] = {}
    for each in filter(_tells, document["benchmarks"]):
        named.setdefault(str(each.get("run_name") or _name(each)), []).append(each)
    cases = [_case(name, entries) for name, entries in named.items()]
    tool = f"{TOOL} {context.get('library_version') or ''}".strip()
    started = _moment(str(context.get("date") or ""), path)
    return [_records.run(tool, path, cases, started=started, machine=machine)]


def _moment(text: str, path: Path) -> datetime:
    """When it ran; the time of the file if that is not written down."""
    for pattern in _OLD_TIMES:
        with suppress(ValueError):
            return datetime.strptime(text, pattern).replace(tzinfo=UTC)
    with suppress(ValueError):
        return _records.moment(text)
    return _records.moment(int(path.stat().st_mtime))


def _name(entry: dict[str, Any]) -> str:
    """The benchmark of an entry of an old version, whose aggregates have their kind behind the name."""
    name = str(entry["name"])
    return name.rpartition("_")[0] if name.endswith(("_mean", "_median", "_stddev", "_cv")) else name


def _case(name: str, entries: list[dict[str, Any]]) -> Case:
    threads = next((entry["threads"] for entry in entries if entry.get("threads", 1) != 1), None)
    axes: dict[str, Axis] = {"threads": int(threads)} if threads else {}
    failed = next((each for each in entries if each.get("error_occurred") or each.get("skipped")), None)
    if failed:
        why = str(failed.get("error_message") or failed.get("skip_message") or "")
        return _records.make_failed(TOOL, name, axes, why)
    kept = [entry for entry in entries if not _kind(entry)]
    note = "the mean of the iterations of a repetition"
    if not kept:
        kept, note = [entry for entry in entries if _kind(entry) == "median"], "the median of the repetitions"
    times = [float(each["real_time"] or 0) * _SECONDS[each.get("time_unit", "ns")] for each in kept]
    calls = max([int(each.get("iterations") or 1) for each in kept], default=1)
    case = _records.to_case(TOOL, name, axes, times, calls=calls, note=note)
    # What its author counted; a rate says so by its name.
    counters = [
        _records.single(key, "1/s" if key.endswith("_per_second") else "1", value)
        for key, value in (kept[0] if kept else {}).items()
        if key not in _OWN and not key.endswith("_index")
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    ]
    return structs.replace(case, series=[*case.series, *counters])


def _kind(entry: dict[str, Any]) -> str:
    """mean, median ... of an aggregate; "" of a repetition."""
    name = str(entry["name"])
    return str(entry.get("aggregate_name") or ("" if _name(entry) == name else name.rpartition("_")[2]))
