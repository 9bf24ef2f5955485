"""Copies from pinned memory take much of the step while no kernel runs.

Lies when: the copy is the work (a data mover), or it is the first batch of an epoch.
Source: our own: 5 % of the step."""

from laptime.kit.units import show
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import per_step, share, times

THRESHOLD = 0.05
NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Fire for copies between host and device that are not pageable (those have their own rule)."""
    rows = [row for row in profile.copies if row.direction in ("HtoD", "DtoH") and row.memory != "pageable"]
    gain = per_step(profile, sum(row.exposed_ns for row in rows))
    if not rows or share(profile, gain) < THRESHOLD:
        return None
    worst = max(rows, key=lambda row: row.exposed_ns)
    moved = f" ({show(worst.bytes / max(1, profile.overview.steps), 'B')} a step)" if worst.bytes else ""
    return finding(
        profile,
        f"{worst.direction} copies{moved} keep the device from computing {times(profile, gain)}",
        gain_is="copies while no kernel runs",
        evidence={"bytes": worst.bytes, "bandwidth": worst.bandwidth, "operators": dict(worst.operators[:3])},
        rows=[f"copies/{row.id}" for row in rows],
        change="copy images as uint8 and normalise them on the device; copy the next batch on a side stream",
        optimization="uint8_transfer" if worst.direction == "HtoD" else "",
        stack=worst.stack,
        reaches={"copies": gain},
    )
