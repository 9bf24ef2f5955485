"""The run as pytest-benchmark's JSON, for its `compare` and for dashboards that read it.

Times only, in seconds; as in our own numbers, disturbed samples are excluded where enough others are there.
"""

import json
from typing import Any

import numpy as np

from laptime.analysis.evidence import select
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import Series
from laptime.reports._words import plain
from laptime.reports.formats import timings

NAME = "pytest_benchmark"
SUFFIXES: tuple[str, ...] = (".pytest-benchmark",)
VERSION = "5.1.0"  # of the tool whose format this is


def render(run: Run) -> str:
    """One benchmark a case and regime; the machine's name and folders are left out.
    Raises UsageError: the run has no timings."""
    machine, git = run.environment, run.environment.git or {}
    document = {
        "machine_info": {
            "node": "",
            "processor": machine.cpu,
            "machine": "",
            "python_implementation": "CPython",
            "python_version": machine.python.partition(" ")[0],
            "release": "",
            "system": machine.os,
            "cpu": {"brand_raw": machine.cpu, "count": machine.vcpus},
        },
        "commit_info": {
            "id": git.get("commit") or "unknown",
            "branch": git.get("branch") or "(unknown)",
            "dirty": bool(git.get("dirty")),
            "project": "",
        },
        "benchmarks": [_benchmark(run, case, series) for case, series in timings(run, NAME)],
        "datetime": run.started,
        "version": VERSION,
    }
    return json.dumps(document, indent=4) + "\n"


def _benchmark(run: Run, case: Case, series: Series) -> dict[str, Any]:
    name = f"{plain(case.key)} {series.regime}"
    return {
        "group": None,
        "name": name,
        "fullname": f"laptime::{name}",
        "params": {axis: plain(value) for axis, value in case.axes.items()},
        "param": plain(case.key),
        "extra_info": {
            "laptime_run": run.id,
            "trust": case.trust,
            "fingerprint": run.environment.fingerprint,
        },
        "options": {
            "disable_gc": False,
            "timer": series.clock or "perf_counter",
            "min_rounds": 0,
            "max_time": 0.0,
            "min_time": 0.0,
            "warmup": True,
        },
        "stats": _stats(series),
    }


def _stats(series: Series) -> dict[str, Any]:
    """The statistics by that tool's names: quartiles, Tukey's fences, counts of what lies outside."""
    chosen = select(series)
    values = np.sort(chosen.values)
    q1, median, q3 = (float(np.quantile(values, q)) for q in (0.25, 0.5, 0.75))
    mean, std = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    inside = values[(values >= low) & (values <= high)]
    calls = [series.calls[at] for at in chosen.positions] if series.calls else []
    by_iqr = len(values) - len(inside)
    by_std = int((np.abs(values - mean) > std).sum())
    return {
        "min": float(values[0]),
        "max": float(values[-1]),
        "mean": mean,
        "stddev": std,
        "rounds": len(values),
        "median": median,
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": by_iqr,
        "stddev_outliers": by_std,
        "outliers": f"{by_std};{by_iqr}",
        "ld15iqr": float(inside[0]),
        "hd15iqr": float(inside[-1]),
        "ops": 1 / mean,
        "total": float(values.sum()),
        "iterations": int(np.median(calls)) if calls else 1,
        "data": chosen.values.tolist(),
    }
