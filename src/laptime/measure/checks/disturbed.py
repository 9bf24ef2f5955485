"""How much of the evidence was hit from outside?"""

from __future__ import annotations

from laptime.analysis.evidence import Evidence, select
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting

MANY = 0.5
"""Share of disturbed samples from which even the undisturbed ones are suspect."""

_CAUSES = {
    "waited": "waited for a CPU that other programs used",
    "stolen": "lost CPU time to the hypervisor",
    "throttled": "were stopped by the container's CPU quota",
    "clock": "ran below the sustained clock",
}


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note disturbed samples; warn when they are the majority or could not be excluded."""
    worst: Evidence | None = None
    for series in case.series:
        if series.metric.tag == "latency" and series.label and series.samples:
            evidence = select(series)
            if evidence.disturbed > 0 and (worst is None or evidence.disturbed > worst.disturbed):
                worst = evidence
    if worst is None:
        return None
    causes = [words for name, words in _CAUSES.items() if worst.causes.get(name)]
    consequence = {
        "undisturbed": "they are excluded",
        "few": f"they are excluded, which leaves {len(worst.values)}",
    }.get(worst.basis, "too few others to exclude them")
    serious = worst.disturbed > MANY or worst.basis != "undisturbed"
    return Check(
        "disturbed",
        "warn" if serious else "note",
        f"{worst.disturbed:.0%} of the samples {' or '.join(causes)}; {consequence}",
        "laptime doctor   (shows who else uses the machine)",
    )
