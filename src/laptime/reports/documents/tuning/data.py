"""A session of `tune` for machines: one JSON document with stable keys, whose schema is published.

Format history:
    laptime.tuning/1   first version

Rules: keys are added, never renamed or retyped; every key is always there. Times are seconds, sizes bytes,
speedups baseline time over candidate time. null is "not known", never 0. docs/tune.md explains every key.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from laptime.analysis import tuned
from laptime.records.finding import Finding
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.records.tuning import Applied, Convergence, Diagnosis, Gate, Measured, Patched, Rung, Speedup
from laptime.records.verdict import Verdict
from laptime.reports.documents.tuning.headline import headline
from laptime.reports.json_parts import Environment, Reason, machine, published, reason

SCHEMA: Literal["laptime.tuning/1"] = "laptime.tuning/1"


class Bound(Struct, frozen=True, kw_only=True):
    """What limits the step: data, transfer, compute, other; null where it was not diagnosed."""

    before: str | None
    after: str | None


class Diagnoses(Struct, frozen=True, kw_only=True):
    """Where a step's time goes, as the script is and with the final set."""

    before: Diagnosis | None
    after: Diagnosis | None


class Breakdowns(Struct, frozen=True, kw_only=True):
    """Seconds of a traced step by part; empty where no trace was made."""

    before: dict[str, float]
    after: dict[str, float]


class Document(Struct, frozen=True, kw_only=True):
    """A session: what was gained, what was tried, whether it is still the same training, the patch."""

    schema: Literal["laptime.tuning/1"]
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
    environment: Environment
    reasons: list[Reason]
    outcome: tuned.Outcome
    sentence: str
    goal: str
    mode: str
    budget: float
    ended: str
    baseline: Measured | None
    final: Measured | None
    speedup: Speedup | None
    bound: Bound
    ladder: list[Rung]
    patch: Patched
    recipe: list[Applied]
    recipe_path: str
    gate: Gate
    convergence: Convergence
    diagnosis: Diagnoses
    breakdown: Breakdowns
    ruled_out: dict[str, str]
    seconds_by: dict[str, float]
    trials: int
    verdicts: list[Verdict]
    findings: list[Finding]


def document(run: Run) -> Document:
    """The session as the struct that `--json` prints."""
    tuning = run.tuning
    assert tuning is not None
    line = headline(run)
    before, after = tuning.before, tuning.after
    special: dict[str, Any] = {
        "schema": SCHEMA,
        "environment": machine(run),
        "reasons": [reason(check, None) for check in run.checks if check.outcome != "ok"],
        "outcome": tuned.outcome(run),
        "sentence": f"{line.word}: {line.sentence}",
        "bound": Bound(before=_limit(before), after=_limit(after)),
        "diagnosis": Diagnoses(before=before, after=after),
        "breakdown": Breakdowns(before=tuning.breakdown_before, after=tuning.breakdown_after),
    }
    fields = [name for name in Document.__struct_fields__ if name not in special]
    copied = {name: getattr(tuning if hasattr(tuning, name) else run, name) for name in fields}
    return Document(**special, **copied)


def _limit(diagnosis: Diagnosis | None) -> str | None:
    return (diagnosis.bound or None) if diagnosis else None


def schema() -> dict[str, Any]:
    """JSON Schema of the document, made from the types above; every key is required."""
    return published(Document)
