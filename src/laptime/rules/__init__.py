"""Diagnoses, one file each: a profile in, a finding out.

Each file has `rule(profile) -> Finding | None`, a pure function on records. None means: nothing to say about
this profile. Its docstring says when it lies and where its thresholds come from. `FRAMEWORKS` names those
that it has advice for; without it that is torch. `NEEDS` names facts of the workload without which the rule
is silent (`_facts.py`). `GENERAL` is above 0 for those that speak of what more special rules have left
(`_evidence.py`)."""

from msgspec import structs

from laptime.kit.errors import LaptimeError
from laptime.kit.registry import load, names
from laptime.records.check import Finding
from laptime.records.environment import Environment
from laptime.records.profile import Profile
from laptime.rules import _evidence, _facts
from laptime.rules._verdict import arrivals, renews_workers, verdict

__all__ = ["arrivals", "diagnose", "renews_workers", "verdict"]
_ORDER = {"problem": 0, "advice": 1, "info": 2}


def diagnose(profile: Profile, machine: Environment | None = None) -> list[Finding]:
    """Return the findings of all rules: most severe, then what relieves the verdict's limit, then by gain.

    Gains are counted once: those of all findings sum to no more than the step. A rule of another package that
    is broken becomes a finding of its own.

    machine: where the profile comes from, when that is known: rules find its CPUs, instruction sets and
    threads among the profile's facts."""
    if machine is not None:
        threads = machine.knobs.get("torch.num_threads")
        thread_facts = {"torch.num_threads": threads} if isinstance(threads, int) else {}
        known = {
            "isa": " ".join(machine.isa),
            "os": machine.os.partition(" ")[0],
            "usable_cpus": machine.usable_cpus,
        }
        profile = structs.replace(profile, facts={**known, **thread_facts, **profile.facts})
    facts, general = _facts.of(profile), dict[str, int]()
    findings = list[Finding]()
    for name in names("rules"):
        answer, general_by = _ask(name, profile, facts)
        if answer is not None:
            findings.append(answer)
            general[answer.kind] = general_by
    if any(finding.kind in ("trace/incomplete", "trace/host-only") for finding in findings):
        findings = [finding for finding in findings if finding.gain is None]
    limit = verdict(profile).bound
    return sorted(
        _evidence.settle(profile, findings, general),
        key=lambda one: (
            _ORDER[one.severity],
            _evidence.bound(profile, one) != limit,
            -(one.gain or 0.0),
            one.kind,
        ),
    )


def _ask(name: str, profile: Profile, facts: frozenset[str]) -> tuple[Finding | None, int]:
    """The answer, and how general the rule is."""
    try:
        module = load("rules", name)
        of_others = profile.facts.get("framework", "torch") not in getattr(module, "FRAMEWORKS", ("torch",))
        if of_others or _facts.unmet(getattr(module, "NEEDS", frozenset()), facts):
            return None, 0
        answer, kind = module.rule(profile), f"trace/{name.replace('_', '-')}"
        return answer and structs.replace(answer, kind=kind), int(getattr(module, "GENERAL", 0))
    except LaptimeError as error:
        return _broken(name, error.why), 0
    except Exception as error:  # one rule's fault must not cost the user all the others' answers
        return _broken(name, f"{type(error).__name__}: {error}"), 0


def _broken(name: str, why: str) -> Finding:
    return Finding(
        kind="trace/broken-rule",
        severity="advice",
        sentence=f"the rule {name!r} is broken and was left out: {why}",
        evidence={"rule": name, "error": why},
        next="laptime doctor   (lists broken extensions and where they come from)",
    )
