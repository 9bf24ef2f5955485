"""airspeed velocity's result files (`results/MACHINE/COMMIT-ENVIRONMENT.json`, all versions): one run a file.

Units are in another file of asv's, but the names tell them: `time_` is seconds, `mem_` and `peakmem_` are
bytes; `track_` is whatever its author says, and is taken as a plain number. Names of parameters are in that
file, too: `results/benchmarks.json` is read where it lies there, else they are `param1`, `param2` ..."""

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

TOOL = "asv"


def matches(document: Any) -> bool:
    """Whether this looks like one."""
    return isinstance(document, dict) and {"results", "commit_hash", "params"} <= document.keys()


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
    columns, named = document.get("result_columns"), _parameter_names(path)
    cases = [
        case
        for name, row in sorted(document["results"].items())
        if row is not None and row != []
        for case in _cases(
            name, dict(zip(columns, row, strict=False)) if columns else _row(row), named.get(name, [])
        )
    ]
    started = datetime.fromtimestamp(float(document["date"]) / 1000, UTC)
    name = str(document.get("env_name", ""))
    return [_records.run(TOOL, path, cases, started=started, machine=machine, name=name)]


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


def _row(value: Any) -> dict[str, Any]:
    """A result of version 1 (before 2018: a number, or results by parameters) by the columns of version 2."""
    if not isinstance(value, dict):
        return {"result": [value]}
    several = {name: each if isinstance(each, list) else [each] for name, each in value.items()}
    for name in ("number", "repeat"):
        several[f"stats_{name}"] = [(each or {}).get(name) for each in several.get("stats", [])]
    return several


def _cases(name: str, row: dict[str, Any], names: list[str]) -> list[Case]:
    """One case a combination of parameters; those that failed or were skipped are left out."""
    params = row.get("params") or []
    if len(set(names)) != len(params):
        names = [f"param{number + 1}" for number in range(len(params))]
    cases = []
    for index, values in enumerate(itertools.product(*params)):
        result = _at(row, "result", index)
        if result is None or not math.isfinite(result):
            continue
        axes: dict[str, Axis] = {of: str(value) for of, value in zip(names, values, strict=True)}
        kind = name.rpartition(".")[2].partition("_")[0]
        if kind in ("time", "timeraw"):
            samples, calls = _at(row, "samples", index), int(_at(row, "stats_number", index) or 1)
            note = "" if samples else f"the median of {_at(row, 'stats_repeat', index) or '?'} samples"
            case = _records.to_case(TOOL, name, axes, samples or [result], calls=calls, note=note)
        else:
            unit = {"mem": "B", "peakmem": "B"}.get(kind, "1")
            series = _records.single(kind, unit, result, better="lower" if unit == "B" else "none")
            case = _records.case(TOOL, name, axes, [series])
        cases.append(case)
    return cases


def _at(row: dict[str, Any], column: str, at: int) -> Any:
    values = row.get(column)
    return values[at] if isinstance(values, list) and at < len(values) else None
