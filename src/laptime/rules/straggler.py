"""One rank arrives last, and the others wait for it.

Lies when: clocks of different machines were brought together by collectives that are themselves skewed, or
one step is too few to separate a habit from an accident.
Source: our own: half of all waiting, and waiting of 5 % of the step; TraceML scores stragglers alike."""

from laptime.kit.units import show
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import ENOUGH_STEPS, per_step, share, step
from laptime.rules._verdict import arrivals
from laptime.rules._verdict import straggler as worst_of

THRESHOLD = 0.05
FRAMEWORKS = ("torch", "tensorflow")
GENERAL = 1


def rule(profile: Profile) -> Finding | None:
    """Name the rank, how often it is last, and what it does meanwhile."""
    late = worst_of(profile)
    if late is None or step(profile) <= 0:
        return None
    others = [row.waiting_ns for row in profile.ranks if row.rank != late.rank and row.waiting_ns is not None]
    mean = per_step(profile, late.caused_ns / max(1, len(others)))
    if share(profile, mean) < THRESHOLD:
        return None
    most = per_step(profile, max(others, default=late.caused_ns))
    why = f": {late.why}" if late.why else ""
    return finding(
        profile,
        f"{arrivals(late)}, {show(mean, 's')} per step and rank{why}",
        gain=most,
        gain_is="waiting of the rank that waits longest",
        loud="problem" if profile.overview.steps >= ENOUGH_STEPS else "advice",
        evidence={
            "rank": late.rank,
            "last_arrivals": late.last_arrivals,
            "collectives": late.collectives,
            "share_of_waiting": late.share,
            "waiting_s_per_step_and_rank": mean,
        },
        rows=[f"ranks/{late.rank}"],
        reaches={"communication": most, "waiting": most},
        change=f"give rank {late.rank} the same work as the others (sharding, data, host it runs on)",
        next=f"trace the file of rank {late.rank} --against that of another rank",
    )
