"""pytest-benchmark's JSON (`--benchmark-json`, `.benchmarks/`): one run a file, one case a benchmark.

Samples are there when they were saved with `--benchmark-save-data`; else the median stands for them."""

from pathlib import Path
from typing import Any

from laptime.edges.imports import _records
from laptime.records.case import Axis, Case
from laptime.records.run import Run

TOOL = "pytest-benchmark"


def matches(document: Any) -> bool:
    """Whether this looks like one."""
    return isinstance(document, dict) and {"benchmarks", "machine_info", "commit_info"} <= document.keys()


def runs(document: Any, path: Path) -> list[Run]:
    """The run of a file; times are in seconds."""
    system, commit = document["machine_info"] or {}, document["commit_info"] or {}
    cpu = system.get("cpu") or {}
    machine = _records.environment(
        host=system.get("node"),
        os=" ".join(str(system[name]) for name in ("system", "release") if system.get(name)),
        python=system.get("python_version"),
        cpu=cpu.get("brand_raw") or cpu.get("brand") or system.get("processor"),
        cpus=cpu.get("count"),
        git={"commit": commit.get("id"), "branch": commit.get("branch"), "dirty": bool(commit.get("dirty"))},
    )
    cases = [_case(each) for each in document["benchmarks"]]
    tool, started = f"{TOOL} {document.get('version', '')}".strip(), _records.moment(document["datetime"])
    return [_records.run(tool, path, cases, started=started, machine=machine)]


def _case(benchmark: dict[str, Any]) -> Case:
    stats = benchmark["stats"] or {}
    calls = int(stats.get("iterations") or 1)
    samples = stats.get("data") or benchmark.get("data")
    rounds = f"{stats.get('rounds', '?')} rounds; the rounds themselves were not saved"
    note = "" if samples else f"the median of {rounds}"
    axes: dict[str, Axis] = {
        str(name): value if isinstance(value, str | int | float | bool) else str(value)
        for name, value in (benchmark.get("params") or {}).items()
    }
    target = str(benchmark.get("fullname") or benchmark["name"])
    if axes:
        target = target.partition("[")[0]
    return _records.to_case(TOOL, target, axes, samples or [stats.get("median")], calls=calls, note=note)
