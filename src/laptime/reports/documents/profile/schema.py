"""A profile for machines: one JSON document with stable keys, whose schema is published.

Format history:
    laptime.profile/1   first version

Rules: keys are added, never renamed or retyped; every key is always there. Durations are whole nanoseconds
(`*_ns`), sizes bytes, shares fractions. null is "not known", never 0. docs/trace.md explains every key.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from msgspec import Struct

from laptime.records.difference import Difference
from laptime.records.finding import Finding
from laptime.records.overview import Overview, Step
from laptime.records.plan import Setting
from laptime.records.profile import Accelerator, Bottleneck, Primitive, Profile, Reconciled, TraceFile
from laptime.records.ranks import CollectiveRow, RankRow, Straggler
from laptime.records.run import Run, Subject
from laptime.records.tables import AnnotationRow, CopyRow, KernelRow, Launches, Memory, ModuleRow, OperatorRow
from laptime.reports.json_parts import Environment, Reason, machine, published, reason

SCHEMA: Literal["laptime.profile/1"] = "laptime.profile/1"


class Advice(Struct, frozen=True, kw_only=True):
    """A finding: a sentence, its evidence, and what to change.

    `gain_ns` is the most that the change can save per step; null where nothing tells. `rows` name rows of the
    tables as `table/id`. `stack` has the innermost frame first.
    """

    kind: str
    severity: Literal["info", "advice", "problem"]
    sentence: str
    evidence: dict[str, Any]
    gain_ns: int | None
    change: str
    optimization: str
    next: str
    stack: list[str]
    rows: list[str]


class Document(Struct, frozen=True, kw_only=True):
    """A profile. `environment` is the machine that ran it: null where a trace was only read."""

    schema: Literal["laptime.profile/1"]
    laptime: str
    id: str
    verb: str
    name: str
    started: str
    seconds: float
    status: str
    command: list[str]
    subjects: list[Subject]
    plan: dict[str, Setting]
    environment: Environment | None
    reasons: list[Reason]
    verdict: Bottleneck | None
    files: list[TraceFile]
    rank: int | None
    world: int | None
    device_type: str
    accelerators: list[Accelerator]
    span_ns: int
    window_ns: int
    steps: list[Step]
    overview: Overview
    operators: list[OperatorRow]
    operators_by_shape: list[OperatorRow]
    annotations: list[AnnotationRow]
    kernels: list[KernelRow]
    kernels_by_launch: list[KernelRow]
    modules: list[ModuleRow]
    memory: list[Memory]
    launches: Launches | None
    copies: list[CopyRow]
    ranks: list[RankRow]
    collectives: list[CollectiveRow]
    stragglers: list[Straggler]
    against: Difference | None
    reconciled: Reconciled | None
    primitives: list[Primitive]
    facts: dict[str, str | int | float | bool]
    findings: list[Advice]


def report(run: Run) -> Document:
    """The run as the struct of the document. The timeline is left out: it is made for drawing."""
    profile = run.profile
    assert profile is not None
    own = {name: getattr(profile, name) for name in Profile.__struct_fields__ if name != "timeline"}
    return Document(
        schema=SCHEMA,
        laptime=run.laptime,
        id=run.id,
        verb=run.verb,
        name=run.name,
        started=run.started,
        seconds=run.seconds,
        status=run.status,
        command=run.command,
        subjects=run.subjects,
        plan=run.plan,
        environment=machine(run) if run.verb == "profile" else None,
        reasons=[reason(check, None) for check in run.checks if check.outcome != "ok"],
        findings=[
            Advice(
                gain_ns=_gain(finding),
                **{name: getattr(finding, name) for name in Advice.__struct_fields__ if name != "gain_ns"},
            )
            for finding in run.findings
        ],
        **own,
    )


def _gain(finding: Finding) -> int | None:
    gain_ns = (finding.gain or 0.0) * 1e9
    return None if finding.gain is None or not math.isfinite(gain_ns) else round(gain_ns)


def schema() -> dict[str, Any]:
    """JSON Schema of the document, made from the types above; every key is required.

    Of the types' own words the first paragraph is taken; docs/trace.md has a line for every key.
    """
    return published(Document)
