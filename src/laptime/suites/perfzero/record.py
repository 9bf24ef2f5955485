"""A benchmark method as a case of a run: what its reports say over the trials, and how its process went."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from laptime.measure import metrics
from laptime.probes import host_memory
from laptime.records.case import Artifact, Case, Failure
from laptime.records.check import Check
from laptime.records.metric import Metric
from laptime.records.series import Series
from laptime.records.verdict import Held, Verdict
from laptime.suites.perfzero.methods import Method
from laptime.suites.perfzero.schema import text
from laptime.suites.perfzero.summary import NAME, Point
from laptime.suites.perfzero.verdict import Outcome, Word, held, spreads

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
    "reported_twice": "report_benchmark(name=...) tells several reports apart",
    "bad_report": "report with tf.test.Benchmark.report_benchmark",
}


def case(
    method: Method, trials: list[Outcome], folder: Path, summary: dict[str, Any], points: list[Point]
) -> Case:
    """The case as it stands after these trials; process figures and files are those of the last one."""
    last = trials[-1]
    failed = last.report is None or last.state not in ("passed", "bound_violated", "not_a_number")
    return Case(
        key=method.name,
        target=method.name,
        axes={},
        status="failed" if failed else "ok",
        failure=_failure(last, folder) if failed else None,
        series=[*_reported(trials), *_process(last, summary, points)],
        checks=[] if failed else _checks(last, len(trials)),
        artifacts=[_artifact(path) for path in (folder / NAME, folder / "perfzero.log") if path.is_file()],
        details={"perfzero": json.loads(text(summary))},
    )


def verdicts(method: Method, trials: list[Outcome]) -> list[Verdict]:
    """One for every bound: whether the mean over the trials keeps it, with its interval from three on."""
    words: dict[Word, Held] = {"kept": "kept", "violated": "broken", "unclear": "undecided"}
    verdicts = []
    for name, each in spreads(trials).items():
        around = each.ci95 or (each.mean, each.mean)
        for kind, limit, word in (
            ("min", each.min_value, held(around, each.min_value, None)),
            ("max", each.max_value, held(around, None, each.max_value)),
        ):
            if limit is None or word is None:
                continue
            sentence = f"{name} {each.mean:.4g}, {kind} {limit:.4g}"
            if each.ci95 is not None:
                sentence += f", 95 % interval [{each.ci95[0]:.4g}, {each.ci95[1]:.4g}]"
            verdicts.append(
                Verdict(
                    kind=kind,  # type: ignore[arg-type]
                    case=method.name,
                    metric=f"reported/{name}",
                    word=words[word],
                    limit=limit,
                    value=each.mean,
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
    columns: dict[str, tuple[str, list[tuple[int, float]]]] = {}
    for index, outcome in enumerate(trials):
        if not outcome.measured or outcome.report is None:
            continue
        for prefix, each in [("", outcome.report), *((f"{o.name}/", o) for o in outcome.others)]:
            for at, number in enumerate(each.numbers):
                unit = "1" if at or outcome.units_doubtful else "s"
                if math.isfinite(number.value):
                    columns.setdefault(f"{prefix}{number.name}", (unit, []))[1].append((index, number.value))
    return [
        Series(
            metric=Metric(
                tag=f"reported/{name}", unit=unit, title=name, meaning="As the benchmark reported it."
            ),
            samples=[value for _, value in values],
            process=[index for index, _ in values] if len(values) > 1 else [],
            probe="report_benchmark",
        )
        for name, (unit, values) in columns.items()
    ]


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


def _checks(outcome: Outcome, trials: int) -> list[Check]:
    checks = [Check(name="benchmark", outcome="ok", sentence=outcome.sentence)]
    if outcome.state == "bound_violated":
        checks = [Check(name="bounds", outcome="note", sentence=outcome.sentence)]
    if outcome.state == "not_a_number":
        step = "mend the benchmark: it reported this itself"
        checks = [Check(name="finite", outcome="fail", sentence=outcome.sentence, next=step)]
    if outcome.renamed and outcome.report is not None:
        checks.append(Check(name="name", outcome="note", sentence=f"it reported as {outcome.report.name!r}"))
    if outcome.units_doubtful:
        sentence = "the reported wall time is longer than the method ran: it is not in seconds"
        checks.append(Check(name="units", outcome="note", sentence=sentence))
    for event in outcome.ended.events:
        if event["event"] in ("profiler_failed", "profiler_late"):
            why = event.get("message") or f"the method was over before second {event.get('begin'):g}"
            checks.append(Check(name="profiler", outcome="note", sentence=f"nothing was profiled: {why}"))
    if trials < 2:
        sentence = "one trial: how much the numbers vary is not known (--benchmark_num_trials=5)"
        checks.append(Check(name="trials", outcome="note", sentence=sentence))
    return checks


def _artifact(path: Path) -> Artifact:
    data = path.read_bytes()
    return Artifact(kind=path.name, path=str(path), size=len(data), sha256=hashlib.sha256(data).hexdigest())
