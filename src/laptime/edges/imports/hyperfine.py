"""hyperfine's `--export-json`: one run a file, one case a command.

The file names neither its time nor its machine: the time of the file stands for the first, nothing for the
second."""

from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.edges.imports import _records
from laptime.records.case import Axis, Case
from laptime.records.check import Check
from laptime.records.run import Run

TOOL = "hyperfine"


def matches(document: Any) -> bool:
    """Whether this looks like one."""
    results = document.get("results") if isinstance(document, dict) else None
    return isinstance(results, list) and all(
        isinstance(each, dict) and {"command", "mean", "user", "system"} <= each.keys() for each in results
    )


def runs(document: Any, path: Path) -> list[Run]:
    """The run of a file; times are in seconds."""
    cases = [_case(each) for each in document["results"]]
    return [_records.run(TOOL, path, cases, started=_records.moment(int(path.stat().st_mtime)))]


def _case(result: dict[str, Any]) -> Case:
    target, times = str(result["command"]), result.get("times")
    axes: dict[str, Axis] = {str(k): str(value) for k, value in (result.get("parameters") or {}).items()}
    codes = [code for code in result.get("exit_codes") or [] if code != 0]
    note = "" if times else "the median; the runs themselves are not in the file"
    case = _records.to_case(TOOL, target, axes, times or [result.get("median") or result["mean"]], note=note)
    if not codes:
        return case
    said = f"{len(codes)} of its runs ended with another exit code than 0"
    return structs.replace(case, checks=[*case.checks, Check("exit_codes", "warn", said)])
