"""Diagnoses, one file each: a profile in, a finding out.

Each file has `rule(profile) -> Finding | None`, a pure function on records. None means: nothing to say about
this profile. Its docstring says when it lies and where its thresholds come from. `FRAMEWORKS` names those
that it has advice for; without it that is torch.
"""

from __future__ import annotations

from msgspec import structs

from laptime.kit.errors import LaptimeError
from laptime.kit.registry import load, names
from laptime.records.environment import Environment
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._verdict import verdict

__all__ = ["diagnose", "verdict"]

_ORDER = {"problem": 0, "advice": 1, "info": 2}


def diagnose(profile: Profile, machine: Environment | None = None) -> list[Finding]:
    """What all rules have to say, most severe first, then by what the change can gain.

    A rule of another package that is broken becomes a finding of its own.

    Args:
        machine: where the profile comes from, when that is known: rules find its CPUs, instruction sets and
            threads among the profile's facts.
    """
    if machine is not None:
        profile = structs.replace(profile, facts={**_facts(machine), **profile.facts})
    findings = [answer for name in names("rules") if (answer := _ask(name, profile)) is not None]
    if any(each.kind == "trace/incomplete" for each in findings):
        findings = [each for each in findings if each.gain is None]
    return sorted(findings, key=lambda one: (_ORDER[one.severity], -(one.gain or 0.0), one.kind))


def _facts(machine: Environment) -> dict[str, str | int | float | bool]:
    threads = machine.knobs.get("torch.num_threads")
    thread_facts = {"torch.num_threads": threads} if isinstance(threads, int) else {}
    return {"isa": " ".join(machine.isa), "usable_cpus": machine.usable_cpus, **thread_facts}


def _ask(name: str, profile: Profile) -> Finding | None:
    try:
        module = load("rules", name)
        if profile.facts.get("framework", "torch") not in getattr(module, "FRAMEWORKS", ("torch",)):
            return None
        answer: Finding | None = module.rule(profile)
    except LaptimeError as error:
        return _broken(name, error.why)
    except Exception as error:  # one rule's fault must not cost the user all the others' answers
        return _broken(name, f"{type(error).__name__}: {error}")
    return answer


def _broken(name: str, why: str) -> Finding:
    return Finding(
        kind="trace/broken-rule",
        severity="advice",
        sentence=f"the rule {name!r} is broken and was left out: {why}",
        evidence={"rule": name, "error": why},
        next="laptime doctor   (lists broken extensions and where they come from)",
    )
