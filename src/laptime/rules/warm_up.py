"""The first recorded steps are warm-up: no figure of a step includes them.

Lies when: the first recorded step is long by chance (a checkpoint, another program on this machine).
Source: our own: at least twice as long as the median of at least three settled steps, of which none is."""

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.rules._evidence import Finding, Profile, finding

FRAMEWORKS = ("torch", "tensorflow")


def rule(profile: Profile) -> Finding | None:
    """Name the steps, and what the host did in them."""
    warm_up = profile.warm_up
    if warm_up is None:
        return None
    beyond, usual = (show(ns * 1e-9, "s") for ns in (warm_up.beyond_ns, profile.overview.step_median_ns))
    did = [f"{row.kind} {show(row.host_ns * 1e-9, 's')}" for row in warm_up.host_work[:3]]
    first = len(warm_up.steps)
    what = "warm-up" if did or profile.reconciled is None else "by chance, for untraced ones had settled"
    return finding(
        profile,
        f"the first {count(first, 'step') if first > 1 else 'step'} took {beyond} more than settled ones of"
        f" {usual}: {what} ({', '.join(did) or 'no event says what it did'}), left out of all figures",
        loud="info",
        evidence={
            "steps": [row.number for row in warm_up.steps],
            "beyond_ns": warm_up.beyond_ns,
            "host_work": {row.kind: row.host_ns for row in warm_up.host_work},
        },
        change="record later, when the program has warmed up: torch.profiler.schedule(wait=1, warmup=3,"
        " active=5)",
        stack=next((row.stack for row in warm_up.host_work if row.stack), []),
    )
