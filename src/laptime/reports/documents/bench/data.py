"""A benchmark as the JSON document with stable keys, whose schema is published.

Format history:
    laptime.report/1   first version

Rules: keys are added, never renamed or retyped. NaN and infinity are written as null: an interval that is
open to one side has a null end."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from laptime.records.case import Axis, Case, Failure, Status
from laptime.records.check import Finding, Trust
from laptime.records.comparison import Comparison
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.reports import json_parts
from laptime.reports.documents.bench.reasons import failure_check
from laptime.reports.documents.bench.table import Stats

SCHEMA: Literal["laptime.report/1"] = "laptime.report/1"
Interval = tuple[float | None, float | None]


class Metric(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number: `value` and `ci95` (95 % interval) in `unit` (SI), from `n` samples.

    `value` is null when the samples cannot support it; `note` then says why. `at_least` is there, and true,
    if the true number is larger: not everything could be counted, as `note` says."""

    value: float | None
    unit: str
    ci95: Interval | None
    n: int
    regime: str | None
    title: str
    better: str
    note: str
    at_least: bool = False


class CaseRow(Struct, frozen=True, kw_only=True):
    """One case: what was measured on one value of every axis. Metrics are keyed by tag."""

    key: str
    target: str
    axes: dict[str, Axis]
    status: Status
    verdict: Trust
    reasons: list[json_parts.Reason]
    failure: Failure | None
    metrics: dict[str, Metric]
    details: dict[str, Any]


Compared = json_parts.struct(
    "Compared",
    "Candidate against baseline (keys of cases): baseline time over candidate time, and the word for it.",
    {
        **json_parts.fields_of(Comparison, "baseline", "candidate", "metric", "word"),
        **{"speedup": float | None, "ci95": Interval},
        **json_parts.fields_of(Comparison, "margin", "pairs", "processes", "sentence"),
    },
)
Report = json_parts.struct(
    "Report",
    "A run for machines. `seconds` is the wall time of the whole command, `started` ISO 8601 in UTC.",
    {
        "schema": Literal["laptime.report/1"],
        **json_parts.OF_RUN,
        "verdict": Trust,
        "reasons": list[json_parts.Reason],
        "environment": json_parts.Environment,
        "plan": dict[str, Setting],
        "subjects": list[Subject],
        "cases": list[CaseRow],
        "comparisons": list[Compared],  # type: ignore[valid-type]
        "findings": list[Finding],
    },
)


def report(run: Run, stats: list[Stats]) -> Struct:
    """The run as the structs above; `stats` are the numbers of each case."""
    cases = [_fill_case(case, numbers) for case, numbers in zip(run.cases, stats, strict=True)]
    return json_parts.fill(
        Report,
        run,
        schema=SCHEMA,
        verdict=run.trust,
        reasons=[*json_parts.reasons(run), *(reason for case in cases for reason in case.reasons)],
        environment=json_parts.machine(run),
        cases=cases,
        comparisons=[json_parts.fill(Compared, comparison) for comparison in run.comparisons],
    )


def _fill_case(case: Case, stats: Stats) -> CaseRow:
    return json_parts.fill(
        CaseRow,
        case,
        verdict=case.trust,
        details=msgspec.to_builtins(case.details),
        reasons=[
            *([json_parts.reason(failure_check(case.failure), case)] if case.failure else []),
            *(json_parts.reason(check, case) for check in case.checks if check.outcome != "ok"),
        ],
        metrics={tag: json_parts.fill(Metric, stat) for tag, stat in stats.items()},
    )
