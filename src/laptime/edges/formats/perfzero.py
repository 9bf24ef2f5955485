"""PerfZero's summary of a run: the same keys and types, so that what reads perfzero_summary.json reads it.

One case is one object, several are a list. What PerfZero has no place for stands under `laptime`: intervals,
verdict, environment. Unlike other reports this one names the host, because its readers expect that."""

import math
from typing import Any

import msgspec

from laptime.analysis.stat import Stat
from laptime.analysis.summary import headline, main_throughput, summarize
from laptime.edges.perfzero.schema import system_info, text
from laptime.records.case import Case
from laptime.records.plan import Constants
from laptime.records.run import Run
from laptime.reports.formats import refusal, unix_time

NAME = "perfzero"
SUFFIXES: tuple[str, ...] = (".perfzero",)
POINTS = 200  # points of a curve that are written; of longer ones every n-th


def render(run: Run) -> str:
    """The document, indented, with a line break at its end.
    Raises UsageError: the run has no cases, as a profile or a tuning session."""
    if run.profile is not None or run.tuning is not None or not run.cases:
        raise refusal(run, NAME, "a summary of each measured case")
    documents = [document(run, case) for case in run.cases]
    return text(documents[0] if len(documents) == 1 else documents)


def document(run: Run, case: Case) -> dict[str, Any]:
    """The summary of one case; a benchmark of PerfZero's keeps the one that was written when it ran."""
    stored = case.details.perfzero
    if stored:
        return stored
    # The user's working tree, as PerfZero writes a repository.
    git = run.environment.git or {}
    tree = {"url": "", "branch": git.get("branch") or "", "hash": git.get("commit") or ""}
    framework = str(case.axes.get("backend", "torch"))
    version = run.environment.libraries.get(framework, "")
    # Figures of the worker process; only numbers, and only those that were measured.
    info: dict[str, Any] = {}
    peaks = [case.find(tag) for tag in ("memory/host/peak", "evidence/process/memory")]
    sizes = [bytes_ for peak in peaks if peak for bytes_ in peak.samples if math.isfinite(bytes_)]
    if sizes:
        info["max_rss"] = int(max(sizes))
    memory = case.details.memory
    virtual = memory.host.virtual if memory and memory.host else None
    if virtual:
        info["max_vms"] = int(virtual)
    if shares := [percent for _, percent in cpu_percent(case)]:
        info["max_cpu_percent"] = max(shares)
    return {
        "execution_id": run.id,
        "execution_timestamp": unix_time(run.started),
        "benchmark_result": _result(case, run.constants),
        "benchmark_info": {
            "harness_name": "laptime",
            "harness_info": {"version": run.laptime},
            "has_exception": case.status == "failed",
            "execution_label": run.name,
            "flags": {name: each.value for name, each in run.plan.items() if each.value is not None},
            "site_package_info": {"working_tree": tree} if git else {},
        },
        "setup_info": {},
        "ml_framework_info": {"name": framework, "version": version, "build_version": ""},
        "system_info": system_info(run.environment),
        "process_info": info,
        "laptime": _more(run, case),
    }


def _result(case: Case, constants: Constants) -> dict[str, Any]:
    stats, rate = summarize(case, constants), main_throughput(case, constants)
    head = headline(case, constants)
    metrics = [{"name": tag, "value": float(s.value or 0.0)} for tag, s in stats.items() if _sound(s)]
    if rate is not None and _sound(rate):
        metrics.insert(0, {"name": "exp_per_second", "value": float(rate.value or 0.0)})
    return {
        "name": case.key,
        "wall_time": float(head.value) if head is not None and head.value is not None else -1.0,
        "succeeded": case.status == "ok" and case.trust != "invalid",
        "extras": [
            {"name": name, "value": value if isinstance(value, str) else float(value)}
            for name, value in case.axes.items()
        ],
        "metrics": metrics,
        "trial_id": 1,
    }


def _sound(stat: Stat) -> bool:
    return stat.value is not None and math.isfinite(stat.value)


def cpu_percent(case: Case) -> list[tuple[float, float]]:
    """Seconds since the run started, and percent of one CPU that the call then used; isolated calls."""
    for regime in ("isolated", "paced", "saturated", "device"):
        times, used = case.find("latency", regime), case.find("disturbance/cpu", regime)
        if times is None or used is None or len(times.samples) != len(used.samples):
            continue
        at = times.at or [0.0] * len(times.samples)
        return [
            (when, 100.0 * cpu / seconds)
            for when, cpu, seconds in zip(at, used.samples, times.samples, strict=True)
            if seconds > 0
        ]
    return []


def _more(run: Run, case: Case) -> dict[str, Any]:
    """Facts that PerfZero has no field for."""
    curve, memory = cpu_percent(case), case.find("evidence/process/memory")
    looks = list(zip(memory.at, memory.samples, strict=False)) if memory else []
    return {
        "version": run.laptime,
        "verdict": {
            "word": case.trust,
            "reasons": [check.sentence for check in case.checks if check.outcome in ("warn", "fail")],
            "failure": case.failure,
        },
        "metrics": {
            tag: {"unit": s.unit, "ci95": s.ci95, "n": s.n, "regime": s.regime}
            | ({"at_least": True} if s.at_least else {})
            for tag, s in summarize(case, run.constants).items()
            if _sound(s)
        },
        "process": {
            "cpu_percent": [{"time": when, "cpu_percent": percent} for when, percent in _thin(curve)],
            "memory": [{"time": when, "rss": bytes_} for when, bytes_ in _thin(looks)],
        },
        "environment": {"fingerprint": run.environment.fingerprint, **msgspec.to_builtins(run.environment)},
    }


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return points[:: math.ceil(len(points) / POINTS) or 1]
