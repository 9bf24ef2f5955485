"""A session of `tune` for machines: one JSON document with stable keys, whose schema is published.

Format history:
    laptime.tuning/1   first version

Rules: keys are added, never renamed or retyped; every key is always there. Times are seconds, sizes bytes,
speedups baseline time over candidate time. null is "not known", never 0. docs/tune.md explains every key."""

from typing import Any, Literal

from msgspec import Struct

from laptime.analysis import tuned
from laptime.records.check import Finding, Verdict
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.records.tuning import Diagnosis, Tuning
from laptime.reports import json_parts
from laptime.reports.documents.tuning.headline import headline

SCHEMA: Literal["laptime.tuning/1"] = "laptime.tuning/1"


def _both(name: str, about: str, kind: Any) -> type[Struct]:
    """The same as the script is and with the final set."""
    return json_parts.struct(name, about, {"before": kind, "after": kind})


Bound = _both(
    "Bound", "What limits the step: data, transfer, compute, other; null if it was not diagnosed.", str | None
)
Diagnoses = _both(
    "Diagnoses", "How a step spends its time, as the script is and with the final set.", Diagnosis | None
)
Breakdowns = _both(
    "Breakdowns", "Seconds of a step by part, as diagnosed; empty without a diagnosis.", dict[str, float]
)
Document = json_parts.struct(
    "Document",
    "A session: what was gained, what was tried, whether it is still the same training, the patch.",
    {
        "schema": Literal["laptime.tuning/1"],
        **json_parts.OF_RUN,
        "command": list[str],
        "subjects": list[Subject],
        "plan": dict[str, Setting],
        "environment": json_parts.Environment,
        "reasons": list[json_parts.Reason],
        "outcome": tuned.Outcome,
        "sentence": str,
        "goal": str,
        "mode": str,
        **json_parts.fields_of(Tuning, "budget", "ended", "why_ended", "shortfall"),
        **json_parts.fields_of(Tuning, "baseline", "final", "speedup"),
        "bound": Bound,
        **json_parts.fields_of(Tuning, "ladder", "patch", "recipe", "recipe_path", "gate", "convergence"),
        "diagnosis": Diagnoses,
        "breakdown": Breakdowns,
        **json_parts.fields_of(Tuning, "ruled_out", "seconds_by", "trials", "model", "server"),
        "verdicts": list[Verdict],
        "findings": list[Finding],
    },
)


def document(run: Run) -> Struct:
    """The session as the struct that `--json` prints."""
    tuning = run.tuning
    assert tuning is not None
    line = headline(run)
    before, after = tuning.before, tuning.after
    return json_parts.fill(
        Document,
        tuning,
        run,
        schema=SCHEMA,
        environment=json_parts.machine(run),
        reasons=json_parts.reasons(run),
        outcome=tuned.outcome(run),
        sentence=f"{line.word}: {line.sentence}",
        bound=Bound(before=_limit(before), after=_limit(after)),
        diagnosis=Diagnoses(before=before, after=after),
        breakdown=Breakdowns(before=before.shares if before else {}, after=after.shares if after else {}),
    )


def _limit(diagnosis: Diagnosis | None) -> str | None:
    return (diagnosis.bound or None) if diagnosis else None
