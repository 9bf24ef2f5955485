"""The run as a result file of airspeed velocity (version 2): put it under `results/MACHINE/`.

Times only, in seconds. `asv publish` also needs `benchmarks.json`, whose content a run does not hold."""

import hashlib
import json
import re
from typing import Any

import numpy as np

from laptime.analysis.evidence import select
from laptime.analysis.quantiles import interval
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import Series
from laptime.reports import _words as words
from laptime.reports.formats import timings, unix_time

NAME = "asv"
SUFFIXES: tuple[str, ...] = (".asv",)


def render(run: Run) -> str:
    """One benchmark a case and regime, named `laptime.CASE.time_REGIME`; the machine's name is left out.
    Raises UsageError: the run has no timings."""
    machine = run.environment
    started = int(unix_time(run.started) * 1000)
    rows = {name(case, series): _row(case, series, started) for case, series in timings(run, NAME)}
    document = {
        "commit_hash": (machine.git or {}).get("commit") or "0" * 40,
        "env_name": f"laptime-{machine.fingerprint}",
        "date": started,
        "params": {
            "arch": "",
            "cpu": machine.cpu,
            "machine": f"laptime-{machine.fingerprint}",
            "num_cpu": str(machine.vcpus),
            "os": machine.os,
            "ram": str(machine.memory // 1024),
            "python": machine.python.partition(" ")[0],
        },
        "python": machine.python.partition(" ")[0],
        "requirements": dict(sorted(machine.libraries.items())),
        "env_vars": {},
        "result_columns": list(next(iter(rows.values()))),
        "results": {benchmark: list(row.values()) for benchmark, row in rows.items()},
        "durations": {},
        "version": 2,
    }
    return json.dumps(document, indent=1) + "\n"


def name(case: Case, series: Series) -> str:
    """A dotted name, as Python has them: everything else becomes an underscore."""
    plain = re.sub(r"\W+", "_", words.without_paths(case.key), flags=re.ASCII).strip("_")
    return f"laptime.{plain}.time_{series.regime}"


def _row(case: Case, series: Series, started: int) -> dict[str, Any]:
    """Return the columns of one benchmark; each is a list with an entry for every set of parameters."""
    values = select(series).values
    wide = interval(values, 0.5, level=0.99)
    low, high = wide or (float(values.min()), float(values.max()))
    return {
        "result": [float(np.median(values))],
        "params": [],
        "version": hashlib.sha256(case.key.encode()).hexdigest(),
        "started_at": started,
        "duration": round(float(sum(series.samples)), 6),
        "stats_ci_99_a": [low],
        "stats_ci_99_b": [high],
        "stats_q_25": [float(np.quantile(values, 0.25))],
        "stats_q_75": [float(np.quantile(values, 0.75))],
        "stats_number": [int(np.median(series.calls or [1]))],
        "stats_repeat": [len(values)],
        "samples": [values.tolist()],
    }
