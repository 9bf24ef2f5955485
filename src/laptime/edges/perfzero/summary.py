"""The record of a method: perfzero_summary.json, its process over time, and the case of the run.

The summary has PerfZero's keys and types; what is ours stands under `laptime` and nowhere else. Its readers:
Google's ml-testing-accelerators takes every item of process_info for a number; diff_benchmarks looks up
execution_label without asking whether it is there."""

import hashlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from laptime.analysis.summary import REPORTED
from laptime.edges.perfzero.fetching import Repo
from laptime.edges.perfzero.flags import Flags, Method
from laptime.edges.perfzero.process import Ended
from laptime.edges.perfzero.report import Metric as Reported
from laptime.edges.perfzero.report import Report
from laptime.edges.perfzero.schema import WALL_TIME, system_info, text, unit_of
from laptime.edges.perfzero.verdict import Outcome, hold_to, spreads
from laptime.kit import __version__
from laptime.measure import metrics
from laptime.probes import host_memory
from laptime.process.program import tail
from laptime.records.case import Artifact, Case, Failure
from laptime.records.check import Check, Verdict, trust
from laptime.records.details import Details
from laptime.records.environment import Environment
from laptime.records.series import Metric, Series, read_metrics

NAME = "perfzero_summary.json"
CURVE = "process_info.log"
MEMORY = host_memory.OVER_TIME
(CPU,) = read_metrics("""
evidence/process/cpu ratio none CPUs in use
    CPU time of the benchmark's process and its children, over wall time, since the look before.
    Lies when: CPU time is counted in ticks of 10 ms.
""")
_PEAK = next(metric for metric in host_memory.METRICS if metric.tag == "memory/host/peak")
_KINDS = {"crashed": "died", "hung": "hung"}
_NEXT = {
    "no_report": "call self.report_benchmark(...) at the end of the method",
    "hung": "--timeout=2h, for example, if it needs longer",
    "reported_twice": "report_benchmark(name=...) keeps several reports apart",
    "bad_report": "report with tf.test.Benchmark.report_benchmark",
}


class Conditions(Struct, frozen=True, kw_only=True):
    """Facts that all methods of a run share."""

    flags: Flags
    methods: list[Method]
    python_path: list[str]  # folders for the benchmarks' sys.path, absolute
    environment: Environment
    repos: dict[str, Repo]  # as they are checked out, by name
    timing: dict[str, float]  # seconds of preparing, by step


class Point(Struct, frozen=True, kw_only=True):
    """A line of process_info.log: seconds since the method began, bytes, bytes, percent of one CPU."""

    time: float
    rss: int
    vms: int
    cpu_percent: float


def summary(
    method: Method, folder: Path, trials: list[Outcome], conditions: Conditions, checks: list[Check]
) -> dict[str, Any]:
    """The document of the last of these trials; the ones before it serve the intervals."""
    last, flags = trials[-1], conditions.flags
    framework = _framework(last.ended)
    if flags.ml_framework_build_label is not None:
        framework["build_label"] = flags.ml_framework_build_label
    labels = {"platform_name": flags.platform_name, "system_name": flags.system_name}
    names = {name: label for name, label in labels.items() if label is not None}
    report = last.report or Report(wall_time=-1.0)
    return {
        "execution_id": folder.name,
        "execution_timestamp": _began(last.ended),
        "benchmark_result": {
            "name": method.name,
            "wall_time": report.wall_time,
            "succeeded": last.state == "passed",
            "extras": [{"name": name, "value": value} for name, value in report.extras.items()],
            "metrics": msgspec.to_builtins(report.metrics),
            "trial_id": len(trials),
        },
        "benchmark_info": _info(last, conditions, folder),
        "setup_info": {},
        "ml_framework_info": framework,
        "system_info": system_info(conditions.environment, names),
        "process_info": process_info(last.ended),
        "laptime": _ours(method, trials, conditions, checks),
    }


def _info(outcome: Outcome, conditions: Conditions, folder: Path) -> dict[str, Any]:
    flags = conditions.flags
    info: dict[str, Any] = {
        "harness_name": "perfzero",
        "harness_info": {},
        "has_exception": outcome.state in ("raised", "crashed", "hung", "reported_twice"),
        "execution_label": flags.execution_label or "",
    }
    if flags.output_gcs_url:
        info["output_url"] = f"{flags.output_gcs_url.rstrip('/')}/{folder.name}/"
    if variables := {name: text for name, text in os.environ.items() if name.startswith("PERFZERO_")}:
        info["env_vars"] = variables
    info["flags"] = flags.as_given()
    info["site_package_info"] = {
        name: {"url": repo.url, "branch": repo.branch, "hash": repo.hash}
        for name, repo in conditions.repos.items()
    }
    return info


def _framework(ended: Ended) -> dict[str, str]:
    """The framework that the benchmark had loaded when last seen."""
    frameworks = [event["framework"] for event in ended.events if event.get("framework")]
    return dict(frameworks[-1]) if frameworks else {"name": "none", "version": "", "build_version": ""}


def framework_version(ended: Ended) -> dict[str, str]:
    """The version of that framework, by its name; empty if none was loaded."""
    framework = _framework(ended)
    return {framework["name"]: framework["version"]} if framework.get("version") else {}


def _began(ended: Ended) -> float:
    """When the method began, or what came last before it; the process's start when nothing was told."""
    event = ended.event("started") or ended.event("constructed") or (ended.events or [{}])[0]
    return float(event.get("unix", 0.0))


def process_info(ended: Ended) -> dict[str, int | float]:
    """Highest figures while the method ran, from what it told at its start and end, and from the looks.

    Keys of what was not measured are left out: a zero would be a lie."""
    start, end = ended.span
    if start is None:
        return {}
    ends = [event for event in (start, end) if event is not None]
    first, last = float(start["unix"]), float(end["unix"]) if end else float("inf")
    inside = [look for look in ended.looks if first <= look.unix <= last]
    # The mark of the highest resident set was reset at the start, so it has every peak, however short.
    rss = [look.rss for look in inside] + [
        int(event[key]) for event in ends for key in ("rss", "peak") if key in event
    ]
    vms = [look.vms for look in inside] + [int(event["vms"]) for event in ends if "vms" in event]
    # The first look's window began before the method did.
    cpu = [look.cpu for look in inside[1:]]
    if end is not None and "clock" in start:
        cpu.append(_mean_percent(start, end))
    figures: dict[str, Sequence[float]] = {"max_rss": rss, "max_vms": vms, "max_cpu_percent": cpu}
    return {name: max(values) for name, values in figures.items() if values}


def curve(ended: Ended) -> list[Point]:
    """The process over time; times before 0 are importing and building.

    What it told at the method's start and end has no window of its own: its CPU time is that of the look
    before, at the end of a method too short for a look the mean of the method."""
    zero = _began(ended)
    points = [
        Point(time=look.unix - zero, rss=look.rss, vms=look.vms, cpu_percent=look.cpu) for look in ended.looks
    ]
    start, end = ended.span
    if start is None:
        return points
    mean = _mean_percent(start, end)
    for event in (start, end):
        if event is not None and "rss" in event:
            time = float(event["unix"]) - zero
            before = [point.cpu_percent for point in points if 0 < point.time < time]
            before = before or [point.cpu_percent for point in points if point.time < 0 and event is start]
            percent = before[-1] if before else mean
            points.append(Point(time=time, rss=event["rss"], vms=event["vms"], cpu_percent=percent))
    return sorted(points, key=lambda point: point.time)


def _mean_percent(start: dict[str, Any], end: dict[str, Any] | None) -> float:
    """CPU time of the method over its wall time, percent of one CPU; 0 when it had no end.

    The clock was read before the CPU time at the start and behind it at the end: no more than there is."""
    seconds = float(end["clock"]) - float(start["clock"]) if end and "clock" in start else 0.0
    return 100.0 * (float(end["cpu"]) - float(start["cpu"])) / seconds if end and seconds > 0 else 0.0


def _ours(
    method: Method, trials: list[Outcome], conditions: Conditions, checks: list[Check]
) -> dict[str, Any]:
    last = trials[-1]
    ended, environment = last.ended, conditions.environment
    return {
        "version": __version__,
        "class": method.cls,
        "method": method.method,
        "verdict": {
            "word": last.state,
            "sentence": last.sentence,
            "states": [trial.state for trial in trials],
            "trust": trust(checks) if checks else "invalid",
            "reasons": [check.sentence for check in checks if check.outcome in ("fail", "warn")],
        },
        "metrics": {name: msgspec.to_builtins(spread) for name, spread in spreads(trials).items()},
        "reports": [
            {**structs.asdict(report), "metrics": msgspec.to_builtins(report.metrics)}
            for report in ([last.report] if last.report else []) + last.others
        ],
        "name_overridden": last.renamed,
        "wall_time_in_seconds": False if last.units_doubtful else None,
        "process": {
            "status": ended.status,
            "seconds": ended.seconds,
            "printed": ended.printed,
            "import_seconds": _seconds(ended, "imported"),
            "constructor_seconds": _seconds(ended, "constructed"),
            "method_seconds": _seconds(ended, "ended"),
        },
        "profiler": [event for event in ended.events if str(event.get("event")).startswith("profile")],
        "preparing": conditions.timing,
        "repositories": {name: repo.dirty for name, repo in conditions.repos.items()},
        "environment": {"fingerprint": environment.fingerprint, **msgspec.to_builtins(environment)},
    }


def _seconds(ended: Ended, name: str) -> float | None:
    event = ended.event(name)
    return float(event["seconds"]) if event and "seconds" in event else None


def case(
    method: Method,
    trials: list[Outcome],
    folder: Path,
    document: dict[str, Any],
    points: list[Point],
    checks: list[Check],
) -> Case:
    """The case as it stands after these trials; process figures and files are those of the last one.

    It failed when no trial came to a number; when some did, a check says so."""
    last, failed = trials[-1], not checks
    series = []
    for metric, event in ((metrics.IMPORT, "imported"), (metrics.LOAD, "constructed")):
        figures = last.ended.event(event)
        if figures is not None:
            series.append(Series(metric=metric, samples=[float(figures["seconds"])], probe="wall"))
    if peak := document["process_info"].get("max_rss"):
        series.append(Series(metric=_PEAK, samples=[float(peak)], probe="process"))
    if points:
        at = [point.time for point in points]
        memory, cpu = [float(p.rss) for p in points], [p.cpu_percent / 100 for p in points]
        series += [
            Series(metric=MEMORY, samples=memory, at=at, probe="process"),
            Series(metric=CPU, samples=cpu, at=at, probe="process"),
        ]
    return Case(
        key=method.name,
        target=method.name,
        axes={},
        status="failed" if failed else "ok",
        failure=_failure(last, folder) if failed else None,
        series=[*_read_reports(trials), *series],
        checks=checks,
        artifacts=[_artifact(path) for path in (folder / NAME, folder / "perfzero.log") if path.is_file()],
        details=Details(perfzero=json.loads(text(document))),
    )


def verdicts(method: Method, trials: list[Outcome]) -> list[Verdict]:
    """One for every bound: whether the mean over the trials keeps it with its interval, from three on."""
    verdicts = []
    for name, each in spreads(trials).items():
        for kind, limit, word in (
            ("min", each.min_value, hold_to(each, each.min_value, None)),
            ("max", each.max_value, hold_to(each, None, each.max_value)),
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
    return Failure(
        kind=_KINDS.get(outcome.state, "user_code"),
        what=outcome.sentence,
        why=outcome.state.replace("_", " "),
        next=_NEXT.get(outcome.state, f"less {log}"),
        traceback=tail(log),
    )


def _read_reports(trials: list[Outcome]) -> list[Series]:
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
    in_seconds = not any(trial.units_doubtful for trial in trials)
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
    """Return which way a reported number should go, from its name, else from its only bound."""
    name = number.name.partition("#")[0]
    if name.endswith("_time"):
        return "lower"
    known = unit_of(name)[2]
    if known == "none" and (number.min_value is None) != (number.max_value is None):
        return "lower" if number.min_value is None else "higher"
    return known


def _artifact(path: Path) -> Artifact:
    data = path.read_bytes()
    return Artifact(kind=path.name, path=str(path), size=len(data), sha256=hashlib.sha256(data).hexdigest())
