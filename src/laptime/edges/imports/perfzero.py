"""PerfZero's `perfzero_summary.json`: one run a summary; a list of summaries is as many runs.

The unit of a metric is not written down. Names tell some: `wall_time`, `..._s`, `..._ms`, `..._per_second`;
other metrics are plain numbers. Bounds come along as verdicts."""

import math
from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.edges.imports import _records
from laptime.edges.perfzero.schema import WALL_TIME, unit_of
from laptime.records.check import Verdict
from laptime.records.details import Details
from laptime.records.quantity import Quantity
from laptime.records.run import Run
from laptime.records.series import Series

TOOL = "PerfZero"


def matches(document: Any) -> bool:
    """Whether this looks like one, or several."""
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and {"benchmark_result", "execution_timestamp"} <= first.keys()


def runs(document: Any, path: Path) -> list[Run]:
    """The runs of a file."""
    return [_run(each, path) for each in (document if isinstance(document, list) else [document])]


def _run(summary: dict[str, Any], path: Path) -> Run:
    result, system = summary["benchmark_result"], summary.get("system_info") or {}
    framework, info = summary.get("ml_framework_info") or {}, summary.get("benchmark_info") or {}
    sites = info.get("site_package_info") or {}
    commit = next(
        (site["hash"] for site in sites.values() if isinstance(site, dict) and site.get("hash")), None
    )
    machine = _records.environment(
        host=system.get("hostname"),
        os=system.get("platform_name"),
        cpu=system.get("cpu_model"),
        cpus=system.get("logical_cpu_count") or 0,
        libraries={str(framework.get("name") or "framework"): framework.get("version")},
        git={"commit": commit, "dirty": False} if commit else None,
    )
    metrics = {str(each["name"]): each for each in result.get("metrics") or []}
    process = summary.get("process_info") or {}
    series = [
        _one(WALL_TIME, result[WALL_TIME]),
        *(_one(name, each["value"]) for name, each in metrics.items() if name != WALL_TIME),
        *(_records.single(f"process/{name}", "B" if "cpu" not in name else "1", value)
          for name, value in process.items() if isinstance(value, int | float)),
    ]  # fmt: skip
    name = str(result["name"])
    case = _records.case(
        TOOL,
        name,
        {},
        [each for each in series if each is not None],
        Details(extras=result.get("extras") or []),
    )
    if not result.get("succeeded", True) and not case.series:
        case = structs.replace(case, status="failed")
    run = _records.run(
        TOOL,
        path,
        [case],
        started=_records.moment(summary["execution_timestamp"]),
        machine=machine,
        name=str(info.get("execution_label") or summary.get("execution_id") or ""),
    )
    return structs.replace(run, verdicts=[v for each in metrics.values() for v in _bounds(case.key, each)])


def _one(name: str, value: Any) -> Series | None:
    """A metric; None if PerfZero wrote that there was none (-1 for a time, NaN)."""
    if not isinstance(value, int | float) or not math.isfinite(value) or (name == WALL_TIME and value < 0):
        return None
    factor, unit, better = unit_of(name)
    return _records.single(name, unit, value * factor, better=better)


def _bounds(case: str, metric: dict[str, Any]) -> list[Verdict]:
    """PerfZero's own judgement: a value, without an interval, against its bounds."""
    verdicts = []
    value, factor = metric["value"], unit_of(str(metric["name"]))[0]
    for kind, key in (("min", "min_value"), ("max", "max_value")):
        limit = metric.get(key)
        if limit is None or not isinstance(value, int | float):
            continue
        exact = Quantity(value, exact=True)
        verdicts.append(
            Verdict(
                kind=kind,  # type: ignore[arg-type]
                case=case,
                metric=str(metric["name"]),
                word=exact.judge(limit, at_least=kind == "min"),
                limit=limit * factor,
                value=value * factor,
                sentence=f"{value:g}, allowed is {'at least' if kind == 'min' else 'at most'} {limit:g}",
            )
        )
    return verdicts
