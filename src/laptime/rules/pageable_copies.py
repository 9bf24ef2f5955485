"""Batches are copied from pageable memory: the host waits, and nothing overlaps.

Lies when: the copies are few and small (parameters at the start), or host memory is too short to pin.
Source: PyTorch's guide to pinned memory; 1 % of the step is our own threshold."""

from laptime.kit.units import show
from laptime.rules._evidence import Finding, Pool, Profile, finding
from laptime.rules._reading import idle, idle_seconds, per_step, share, times

THRESHOLD = 0.01
NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Fire when copies between host and device of pageable memory take 1 % of the step."""
    rows = [row for row in profile.copies if row.memory == "pageable" and row.direction == "HtoD"]
    rows = [row for row in rows if row.calls > row.upload_calls]  # a model is moved once
    spent = per_step(profile, sum(row.total_ns - row.upload_ns for row in rows))
    if not rows or share(profile, spent) < THRESHOLD:
        return None
    worst = max(rows, key=lambda row: row.total_ns)
    rate = f" at {show(worst.bandwidth, 'B/s')}" if worst.bandwidth else ""
    cause = idle(profile, "synchronisation")
    blamed = {name for row in rows for name, _ in row.operators}
    after = per_step(profile, sum(ns for name, ns in (cause.operators if cause else []) if name in blamed))
    reaches: dict[Pool, float] = {
        "copies": min(spent, per_step(profile, sum(row.exposed_ns for row in rows))),
        "copy": idle_seconds(profile, "copy"),
        "synchronisation": after,
    }
    gain = min(spent, sum(reaches.values()))
    return finding(
        profile,
        f"copies to the device read pageable memory{rate}: {times(profile, spent)}",
        gain=gain,
        gain_is="copies while no kernel runs, and idle time in and after them: at most the copies",
        loud="advice" if share(profile, gain) >= THRESHOLD else "info",
        evidence={
            "copies_per_step": sum(row.calls - row.upload_calls for row in rows)
            / max(1, profile.overview.steps),
            "bytes": worst.bytes,
            "bandwidth": worst.bandwidth,
            "operators": dict(worst.operators[:3]),
        },
        rows=[
            *(f"copies/{row.id}" for row in rows),
            *(f"operators/{name}" for name, _ in worst.operators[:2]),
        ],
        change="DataLoader(..., pin_memory=True) and batch.to(device, non_blocking=True)",
        optimization="pin_memory",
        stack=worst.stack,
        reaches=reaches,
    )
