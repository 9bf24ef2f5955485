"""A profile for machines: one JSON document with stable keys, whose schema is published.

Format history:
    laptime.profile/1   first version

Rules: keys are added, never renamed or retyped; every key is always there. Durations are whole nanoseconds
(`*_ns`), sizes bytes, shares fractions. null is "not known", never 0. docs/trace.md explains every key."""

import math
from typing import Literal

from msgspec import Struct

from laptime.records.check import Finding
from laptime.records.plan import Setting
from laptime.records.profile import Bottleneck, Profile
from laptime.records.run import Run, Subject
from laptime.reports import json_parts

SCHEMA: Literal["laptime.profile/1"] = "laptime.profile/1"


Advice = json_parts.struct(
    "Advice",
    """A finding: what was found, on what evidence, and what to change.

    `gain_ns` is the most that the change can save per step; null if it is not known. `rows` name rows of the
    tables as `table/id`. `stack` has the innermost frame first.""",
    {
        **json_parts.fields_of(Finding, "kind", "severity", "sentence", "evidence"),
        "gain_ns": int | None,
        **json_parts.fields_of(Finding, "change", "optimization", "next", "stack", "rows"),
    },
)
Document = json_parts.struct(
    "Document",
    "A profile. `environment` is the machine that ran it: null if a trace was only read.",
    {
        "schema": Literal["laptime.profile/1"],
        **json_parts.OF_RUN,
        "command": list[str],
        "subjects": list[Subject],
        "plan": dict[str, Setting],
        "environment": json_parts.Environment | None,
        "reasons": list[json_parts.Reason],
        "verdict": Bottleneck | None,
        **json_parts.fields_of(Profile, without=("timeline", "calls", "verdict")),  # made for drawing
        "findings": list[Advice],  # type: ignore[valid-type]
    },
)


def report(run: Run) -> Struct:
    """The run as the struct of the document."""
    return json_parts.fill(
        Document,
        run,
        run.profile,
        schema=SCHEMA,
        environment=json_parts.machine(run) if run.verb == "profile" else None,
        reasons=json_parts.reasons(run),
        findings=[_advice(finding) for finding in run.findings],
    )


def _advice(finding: Finding) -> Struct:
    gain_ns = math.nan if finding.gain is None else finding.gain * 1e9
    return json_parts.fill(Advice, finding, gain_ns=round(gain_ns) if math.isfinite(gain_ns) else None)
