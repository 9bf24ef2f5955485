"""A profile for machines: one JSON document with stable keys, whose schema is published.

Format history:
    laptime.profile/1   first version

Rules: keys are added, never renamed or retyped; every key is always there. Durations are whole nanoseconds
(`*_ns`), sizes bytes, shares fractions. null is "not known", never 0. docs/trace.md explains every key.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from msgspec import Struct, defstruct, structs

from laptime.records.finding import Finding
from laptime.records.plan import Setting
from laptime.records.profile import Profile
from laptime.records.run import Run, Subject
from laptime.reports.json_parts import Environment, Reason, machine, published, reason

SCHEMA: Literal["laptime.profile/1"] = "laptime.profile/1"


class Advice(Struct, frozen=True, kw_only=True):
    """A finding: what was found, on what evidence, and what to change.

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


_OF_RUN = {name: str for name in ("laptime", "id", "verb", "name", "started")} | {
    "seconds": float,
    "status": str,
    "command": list[str],
    "subjects": list[Subject],
    "plan": dict[str, Setting],
}
# The timeline is left out: it is made for drawing.
_OF_PROFILE = {field.name: field.type for field in structs.fields(Profile) if field.name != "timeline"}

Document = defstruct(
    "Document",
    [
        ("schema", Literal["laptime.profile/1"]),
        *_OF_RUN.items(),
        ("environment", Environment | None),
        ("reasons", list[Reason]),
        ("verdict", _OF_PROFILE.pop("verdict")),
        *_OF_PROFILE.items(),
        ("findings", list[Advice]),
    ],
    frozen=True,
    kw_only=True,
    module=__name__,
    namespace={
        "__doc__": "A profile. `environment` is the machine that ran it: null where a trace was only read."
    },
)


def report(run: Run) -> Struct:
    """The run as the struct of the document."""
    profile = run.profile
    assert profile is not None
    return Document(
        schema=SCHEMA,
        **{name: getattr(run, name) for name in _OF_RUN},
        environment=machine(run) if run.verb == "profile" else None,
        reasons=[reason(check, None) for check in run.checks if check.outcome != "ok"],
        verdict=profile.verdict,
        **{name: getattr(profile, name) for name in _OF_PROFILE},
        findings=[_advice(finding) for finding in run.findings],
    )


def _advice(finding: Finding) -> Advice:
    gain_ns = math.nan if finding.gain is None else finding.gain * 1e9
    fields = {name: getattr(finding, name) for name in Advice.__struct_fields__ if name != "gain_ns"}
    return Advice(gain_ns=round(gain_ns) if math.isfinite(gain_ns) else None, **fields)


def schema() -> dict[str, Any]:
    """JSON Schema of the document, made from the types above; every key is required.

    Of the types' own words the first paragraph is taken; docs/trace.md has a line for every key.
    """
    return published(Document)
