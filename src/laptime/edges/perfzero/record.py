"""A benchmark method as a case of a run: what its reports say over the trials, and how its process went."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any, Literal

from laptime.analysis.summary import REPORTED
from laptime.edges.perfzero.flags import Method
from laptime.edges.perfzero.report import Metric as Reported
from laptime.edges.perfzero.schema import WALL_TIME, text, unit_of
from laptime.edges.perfzero.summary import NAME, Point
from laptime.edges.perfzero.verdict import Outcome, held, spreads
from laptime.measure import metrics
from laptime.probes import host_memory
from laptime.records.case import Artifact, Case, Failure
from laptime.records.check import Check, Verdict
from laptime.records.details import Details
from laptime.records.series import Metric, Series

MEMORY = host_memory.OVER_TIME
CPU = Metric(
    tag="evidence/process/cpu",
    unit="ratio",
    title="CPUs in use",
    meaning="CPU time of the benchmark's process and its children, over wall time, since the look before.",
    lies_when="CPU time is counted in ticks of 10 ms.",
)
_PEAK = next(metric for metric in host_memory.METRICS if metric.tag == "memory/host/peak")
_TRACEBACK = 4000
_KINDS = {"crashed": "died", "hung": "hung"}
_NEXT = {
    "no_report": "call self.report_benchmark(...) at the end of the method",
    "hung": "--timeout=2h, say, when it needs longer",
    "reported_twice": "report_benchmark(name=...) keeps several reports apart",
    "bad_report": "report with tf.test.Benchmark.report_benchmark",
}


def case(
    method: Method,
    trials: list[Outcome],
    folder: Path,
    summary: dict[str, Any],
    points: list[Point],
    checks: list[Check],
) -> Case:
    """The case as it stands after these trials; process figures and files are those of the last one.

    It failed when no trial came to a number; when some did, a check says so.
    """
    last, failed = trials[-1], not checks
    return Case(
        key=method.name,
        target=method.name,
        axes={},
        status="failed" if failed else "ok",
        failure=_failure(last, folder) if failed else None,
        series=[*_reported(trials), *_process(last, summary, points)],
        checks=checks,
        artifacts=[_artifact(path) for path in (folder / NAME, folder / "perfzero.log") if path.is_file()],
        details=Details(perfzero=json.loads(text(summary))),
    )


def verdicts(method: Method, trials: list[Outcome]) -> list[Verdict]:
    """One for every bound: whether the mean over the trials keeps it with its interval, from three on."""
    verdicts = []
    for name, each in spreads(trials).items():
        for kind, limit, word in (
            ("min", each.min_value, held(each, each.min_value, None)),
            ("max", each.max_value, held(each, None, each.max_value)),
        ):
            if limit is None or word is None:
                continue
            sentence = f"{name} {each.value:.4g}, {kind} {limit:.4g}; {each.statistic}"
            if each.ci95 is not None:
                sentence += f", 95 % interval [{each.ci95[0]:.4g}, {each.ci95[1]:.4g}]"
            elif len(each.values) > 1:
                sentence += f", values {each.range[0]:.4g} to {each.range[1]:.4g}"
            verdicts.append(
                Verdict(
                    kind=kind,  # type: ignore[arg-type]
                    case=method.name,
                    metric=f"{REPORTED}{name}",
                    word=word,
                    limit=limit,
                    value=each.value,
                    ci95=each.ci95,
                    sentence=sentence,
                )
            )
    return verdicts


def _failure(outcome: Outcome, folder: Path) -> Failure:
    log = folder / "perfzero.log"
    printed = log.read_bytes()[-_TRACEBACK:].decode("utf-8", "replace") if log.is_file() else ""
    return Failure(
        kind=_KINDS.get(outcome.state, "user_code"),
        what=outcome.sentence,
        why=outcome.state.replace("_", " "),
        next=_NEXT.get(outcome.state, f"less {log}"),
        traceback=printed,
    )


def _reported(trials: list[Outcome]) -> list[Series]:
    """The numbers of the reports, one sample a trial; their units are the benchmark's own."""
    columns: dict[str, list[tuple[int, Reported]]] = {}
    for index, outcome in enumerate(trials):
        if not outcome.measured or outcome.report is None:
            continue
        numbers: dict[str, Reported] = {}
        for prefix, each in [("", outcome.report), *((f"{o.name}/", o) for o in outcome.others)]:
            for number in each.numbers:
                numbers.setdefault(f"{prefix}{number.name}", number)
        for name, number in numbers.items():
            if math.isfinite(number.value):
                columns.setdefault(name, []).append((index, number))
    in_seconds = not any(each.units_doubtful for each in trials)
    return [
        Series(
            metric=Metric(
                tag=f"{REPORTED}{name}",
                unit="s" if numbers[0][1].name == WALL_TIME and in_seconds else "1",
                title=name,
                better=_better(numbers[-1][1]),
                meaning="As the benchmark reported it.",
            ),
            samples=[number.value for _, number in numbers],
            process=[index for index, _ in numbers] if len(numbers) > 1 else [],
            probe="report_benchmark",
        )
        for name, numbers in columns.items()
    ]


def _better(number: Reported) -> Literal["lower", "higher", "none"]:
    """Which way a reported number should go, from its name, else from its only bound."""
    name = number.name.partition("#")[0]
    if name.endswith("_time"):
        return "lower"
    known = unit_of(name)[2]
    if known == "none" and (number.min_value is None) != (number.max_value is None):
        return "lower" if number.min_value is None else "higher"
    return known


def _process(outcome: Outcome, summary: dict[str, Any], points: list[Point]) -> list[Series]:
    series = []
    for metric, event in ((metrics.IMPORT, "imported"), (metrics.LOAD, "constructed")):
        figures = outcome.ended.event(event)
        if figures is not None:
            series.append(Series(metric=metric, samples=[float(figures["seconds"])], probe="wall"))
    if peak := summary["process_info"].get("max_rss"):
        series.append(Series(metric=_PEAK, samples=[float(peak)], probe="process"))
    if points:
        at = [point.time for point in points]
        memory, cpu = [float(p.rss) for p in points], [p.cpu_percent / 100 for p in points]
        series += [
            Series(metric=MEMORY, samples=memory, at=at, probe="process"),
            Series(metric=CPU, samples=cpu, at=at, probe="process"),
        ]
    return series


def _artifact(path: Path) -> Artifact:
    data = path.read_bytes()
    return Artifact(kind=path.name, path=str(path), size=len(data), sha256=hashlib.sha256(data).hexdigest())
