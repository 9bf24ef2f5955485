"""airspeed velocity's result files (`results/MACHINE/COMMIT-ENVIRONMENT.json`, version 2): one run a file.

Units are in another file of asv's, but the names tell them: `time_` is seconds, `mem_` and `peakmem_` are
bytes; `track_` is whatever its author says, and is taken as a plain number. Names of parameters are in that
file, too: `results/benchmarks.json` is read where it lies there, else they are `param1`, `param2` ...
"""

from __future__ import annotations

import itertools
import json
import math
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from laptime.edges.imports import _records
from laptime.records.case import Axis, Case
from laptime.records.run import Run
from laptime.records.series import Series

TOOL = "asv"


def matches(document: Any) -> bool:
    """Whether this looks like one."""
    return isinstance(document, dict) and {"result_columns", "results", "commit_hash"} <= document.keys()


def runs(document: Any, path: Path) -> list[Run]:
    """The run of a file. Its time is the date of the commit, which is what asv keeps."""
    machine_info = document["params"]
    machine = _records.environment(
        host=machine_info.get("machine"),
        os=machine_info.get("os"),
        python=document.get("python"),
        cpu=machine_info.get("cpu"),
        cpus=machine_info.get("num_cpu"),
        memory=machine_info.get("ram"),
        libraries=document.get("requirements"),
        git={"commit": document["commit_hash"], "dirty": False},
    )
    columns, named = document["result_columns"], _parameter_names(path)
    cases = [
        case
        for name, row in sorted(document["results"].items())
        if row
        for case in _cases(name, dict(zip(columns, row, strict=False)), named.get(name, []))
    ]
    started = datetime.fromtimestamp(float(document["date"]) / 1000, UTC)
    name = str(document.get("env_name", ""))
    return [_records.run(TOOL, path.name, cases, started=started, machine=machine, name=name)]


def _parameter_names(path: Path) -> dict[str, list[str]]:
    """By benchmark, from the `benchmarks.json` in the folder above the machine's; empty without it."""
    with suppress(OSError, ValueError, AttributeError, TypeError):
        known = json.loads((path.absolute().parent.parent / "benchmarks.json").read_text(encoding="utf-8"))
        return {
            name: [str(each) for each in benchmark.get("param_names") or []]
            for name, benchmark in known.items()
            if isinstance(benchmark, dict)
        }
    return {}


def _cases(name: str, row: dict[str, Any], names: list[str]) -> list[Case]:
    """One case a combination of parameters; those that failed or were skipped are left out."""
    params = row.get("params") or []
    if len(set(names)) != len(params):
        names = [f"param{number + 1}" for number in range(len(params))]
    cases = []
    for at, values in enumerate(itertools.product(*params)):
        result = _at(row, "result", at)
        if result is None or not math.isfinite(result):
            continue
        axes: dict[str, Axis] = {of: str(value) for of, value in zip(names, values, strict=True)}
        cases.append(_records.case(TOOL, name, axes, [_series(name, result, row, at)]))
    return cases


def _series(name: str, result: float, row: dict[str, Any], at: int) -> Series:
    kind = name.rpartition(".")[2].partition("_")[0]
    if kind in ("time", "timeraw"):
        samples, calls = _at(row, "samples", at), int(_at(row, "stats_number", at) or 1)
        if samples:
            return _records.latency(samples, calls=calls)
        repeat = _at(row, "stats_repeat", at)
        return _records.latency([result], calls=calls, note=f"the median of {repeat or '?'} samples")
    unit = {"mem": "B", "peakmem": "B"}.get(kind, "1")
    return _records.single(kind, unit, result, better="lower" if unit == "B" else "none")


def _at(row: dict[str, Any], column: str, at: int) -> Any:
    values = row.get(column)
    return values[at] if isinstance(values, list) and at < len(values) else None
