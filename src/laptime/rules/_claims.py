"""Gains that can be had together: time of the step that several findings speak of is promised once.

The step is a set of pools: idle time by its cause, computing, communication and copies that nothing hides.
A finding says how much of which pool its change can reach (`evidence["reaches"]`); without, any time of the
step. Findings take from the pools in turn, those that name one thing before those that name the rest of it
(`GENERAL` of a rule is above 0), the largest first. So gains never sum above the step.

Where the step is known without the profiler, and the profiler made it longer, gains are told in proportion:
a change saves time of the program, not of its recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import structs

from laptime.records.check import Finding
from laptime.records.profile import Bound, Profile
from laptime.rules._reading import SERIOUS, WORTH, idle_seconds, per_step, share, step

Pool = Literal[
    "data", "host", "synchronisation", "copy", "waiting", "other", "compute", "communication", "copies"
]

BOUNDS: dict[str, Bound] = {
    "data": "input",
    "host": "host",
    "synchronisation": "synchronisation",
    "copy": "copy",
    "waiting": "communication",
    "compute": "device",
    "communication": "communication",
    "copies": "copy",
}


def pools(profile: Profile) -> dict[str, float]:
    """Seconds per step of each pool. Without a device: waiting for data, operators, Python, collectives."""
    uses = profile.overview.devices
    if not uses:
        parts = profile.overview.breakdown
        waits = {"data": parts.dataloader_ns, "compute": parts.cpu_ns, "waiting": parts.communication_ns}
        rest = profile.overview.step_ns - sum(waits.values())
        return {pool: max(0, ns) * 1e-9 for pool, ns in {**waits, "host": rest}.items()}
    number = len(uses)
    return {
        **{
            cause: idle_seconds(profile, cause)
            for cause in ("data", "host", "synchronisation", "copy", "other")
        },
        "waiting": idle_seconds(profile, "communication"),
        "compute": per_step(profile, sum(use.compute_ns for use in uses) / number),
        "communication": per_step(profile, sum(use.exposed_communication_ns for use in uses) / number),
        "copies": per_step(profile, sum(use.exposed_copy_ns for use in uses) / number),
    }


def settled(profile: Profile, findings: Sequence[Finding], general: Mapping[str, int]) -> list[Finding]:
    """The findings with gains that can be had together, the original order kept.

    One that keeps less than half of its gain, and less than is worth a line, says nothing of its own: it is
    left out.

    Args:
        general: by kind of finding, how general it is: it takes what all with a lower number have left.
    """
    left, whole = pools(profile), step(profile)
    slowdown = max(1.0, profile.reconciled.slowdown) if profile.reconciled is not None else 1.0
    order = sorted(findings, key=lambda one: (general.get(one.kind, 0), -(one.gain or 0.0), one.kind))
    kept: dict[str, Finding] = {}
    for finding in order:
        if finding.gain is None:
            kept[finding.kind] = finding
            continue
        gain = min(_taken(finding, left), whole)
        whole -= gain
        gain /= slowdown
        alone = finding.gain / slowdown
        if gain >= alone / 2 or share(profile, gain * slowdown) >= WORTH:
            kept[finding.kind] = _with_gain(profile, finding, gain, slowdown)
    return [kept[finding.kind] for finding in findings if finding.kind in kept]


def bound(profile: Profile, finding: Finding) -> Bound | None:
    """What its change would relieve: the pool that it reaches most of; None where it does not say."""
    reaches = finding.evidence.get("reaches", {})
    most = max(reaches, key=lambda pool: reaches[pool], default="")
    relieved = BOUNDS.get(most)
    return "cpu" if relieved == "device" and not profile.overview.devices else relieved


def _taken(finding: Finding, left: dict[str, float]) -> float:
    """What is left of what this finding reaches; it is taken out of the pools."""
    wanted = finding.gain or 0.0
    reaches: dict[str, float] = finding.evidence.get("reaches", {})
    if not reaches or not left:
        return wanted
    taken = 0.0
    for pool, seconds in reaches.items():
        part = min(seconds, left.get(pool, 0.0), wanted - taken)
        left[pool] = left.get(pool, 0.0) - part
        taken += part
    return taken


def _with_gain(profile: Profile, finding: Finding, gain: float, slowdown: float) -> Finding:
    assert finding.gain is not None
    if gain >= finding.gain * (1 - 1e-9):
        return finding
    evidence = {**finding.evidence, "gain_alone_s": finding.gain / slowdown}
    if slowdown > 1:
        evidence["profiler_slowdown"] = slowdown
    part = share(profile, gain * slowdown)
    severity = "advice" if finding.severity == "problem" and part < SERIOUS else finding.severity
    severity = "info" if part < WORTH else severity
    return structs.replace(finding, gain=gain, evidence=evidence, severity=severity)
