"""Gains that can be had together: time of the step that several findings speak of is promised once.

The step is a set of pools: idle time by its cause, computing, communication and copies that nothing hides.
A finding says how much of which pool its change can reach (`evidence["reaches"]`); without, any time of the
step. Findings take from the pools in turn, those that name one thing before those that name the rest of it
(`GENERAL` of a rule), the largest first. So gains never sum above the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import structs

from laptime.records.finding import Finding
from laptime.records.profile import Bound, Profile
from laptime.rules._reading import WORTH, idle_seconds, per_step, share, step

Pool = Literal["data", "host", "synchronisation", "copy", "waiting", "other", "compute", "communication", "copies"]

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
    """Seconds per step of each pool; {} without a device, where nothing overlaps."""
    uses = profile.overview.devices
    if not uses:
        return {}
    number = len(uses)
    return {
        **{cause: idle_seconds(profile, cause) for cause in ("data", "host", "synchronisation", "copy", "other")},
        "waiting": idle_seconds(profile, "communication"),
        "compute": per_step(profile, sum(use.compute_ns for use in uses) / number),
        "communication": per_step(profile, sum(use.exposed_communication_ns for use in uses) / number),
        "copies": per_step(profile, sum(use.exposed_copy_ns for use in uses) / number),
    }


def settled(profile: Profile, findings: Sequence[Finding], general: Mapping[str, bool]) -> list[Finding]:
    """The findings with gains that can be had together, the original order kept.

    One that keeps less than half of its gain, and less than is worth a line, says nothing of its own: it is
    left out.

    Args:
        general: whether a kind of finding speaks of what others have left.
    """
    left, whole = pools(profile), step(profile)
    order = sorted(findings, key=lambda one: (general.get(one.kind, False), -(one.gain or 0.0), one.kind))
    kept: dict[str, Finding] = {}
    for finding in order:
        if finding.gain is None:
            kept[finding.kind] = finding
            continue
        gain = min(_taken(finding, left), whole)
        whole -= gain
        if gain >= finding.gain / 2 or share(profile, gain) >= WORTH:
            kept[finding.kind] = _with_gain(profile, finding, gain)
    return [kept[finding.kind] for finding in findings if finding.kind in kept]


def bound(finding: Finding) -> Bound | None:
    """What the finding's change would relieve: the pool that it reaches most of; None where it does not say."""
    reaches = finding.evidence.get("reaches", {})
    most = max(reaches, key=lambda pool: reaches[pool], default="")
    return BOUNDS.get(most)


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


def _with_gain(profile: Profile, finding: Finding, gain: float) -> Finding:
    assert finding.gain is not None
    if gain >= finding.gain * (1 - 1e-9):
        return finding
    evidence = {**finding.evidence, "gain_alone_s": finding.gain}
    severity = finding.severity
    if severity != "info" and share(profile, gain) < WORTH:
        severity = "info"
    return structs.replace(finding, gain=gain, evidence=evidence, severity=severity)
