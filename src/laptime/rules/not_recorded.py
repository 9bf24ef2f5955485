"""No recorded event explains much of the step: laptime can give no advice on it.

Lies when: the host sleeps on purpose (a load generator, a rate limit).
Source: our own: gaps of at least 1 ms and 20 times the usual one, without any event; 5 % of the step."""

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import DATA_WAIT, share, times, unrecorded

NEEDS = frozenset({"!beginning"})


def rule(profile: Profile) -> Finding | None:
    """Say how much, whether it was the profiler, and how to record it."""
    silent, own = unrecorded(profile), profile.overview.profiling_ns > profile.overview.unrecorded_ns / 2
    if share(profile, silent) < DATA_WAIT:
        return None
    return finding(
        profile,
        f"no event shows what the program did in {times(profile, silent)}"
        + (": the profiler took or wrote out its buffers" if own else ""),
        loud="advice",
        evidence={
            "unrecorded_ns_per_step": round(silent * 1e9),
            "profiler_ns_per_step": profile.overview.profiling_ns,
        },
        change="record fewer steps, without with_stack and profile_memory: buffers are then written out later"
        if own
        else "record Python, too: torch.profiler.profile(..., with_stack=True); what is not Python shows in"
        " py-spy record --native",
    )
