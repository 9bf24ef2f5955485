"""Many copies from one place of the device's memory to another, while nothing computes.

Lies when: the copies are the work (a ring buffer, a cache that is moved on purpose).
Source: our own: 50 copies a step, and 5 % of it while no kernel runs."""

from laptime.kit.units import show
from laptime.rules._evidence import DEVICE, Finding, Profile, finding
from laptime.rules._reading import per_step, share, times

MANY = 50
THRESHOLD = 0.05
CLONES = ("aten::clone", "aten::contiguous", "aten::copy_", "aten::_to_copy", "aten::to", "aten::reshape")


def rule(profile: Profile) -> Finding | None:
    """Name the operators that make them."""
    rows = [row for row in profile.copies if row.direction == "DtoD"]
    steps = max(1, profile.overview.steps)
    number = sum(row.calls for row in rows) / steps
    gain = per_step(profile, sum(row.exposed_ns for row in rows))
    if number < MANY or share(profile, gain) < THRESHOLD:
        return None
    worst = max(rows, key=lambda row: row.exposed_ns)
    names = [name for name, _ in worst.operators[:2]]
    moved = f", {show(worst.bytes / steps, 'B')}" if worst.bytes else ""
    cloned = any(name in CLONES for name in names)
    return finding(
        profile,
        f"{' and '.join(names) or 'the program'} copies within the device's memory {number:,.0f} times a"
        f" step{moved}, while nothing computes: {times(profile, gain)}",
        gain_is="copies from device to device while no kernel runs",
        limits=("copy", *DEVICE),
        evidence={"copies_per_step": number, "bytes": worst.bytes, "operators": dict(worst.operators[:5])},
        rows=[*(f"copies/{row.id}" for row in rows), *(f"operators/{name}" for name in names)],
        change="clone() and contiguous() only for a tensor that needs memory of its own; write into it with"
        " out= or copy once for many"
        if cloned
        else "copy larger pieces, or none: let operators read views",
        stack=worst.stack,
        reaches={"copies": gain},
    )
