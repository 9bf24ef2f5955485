"""CPUs stand idle while operators run, or more threads than CPUs run them.

Lies when: operators are too small to be shared between threads.
Source: our own: at least one CPU busy, and below 60 % of those that other programs leave, while operators
limit the step."""

from laptime.kit.units import percent
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import WORTH, operators, per_step, share, step
from laptime.rules._verdict import limit, shares

THRESHOLD = 0.6
CROWDED = 2  # threads for each usable CPU from which on they are too many
LARGE = 50_000
"""ns of an operator's own time from which on sharing it between threads can pay: at::parallel_for splits from
32,768 elements on, and waking the others costs about 10 us."""


def rule(profile: Profile) -> Finding | None:
    """Compare busy threads of the untraced steps with the usable CPUs. Without an accelerator only."""
    reconciled = profile.reconciled
    usable = profile.facts.get("usable_cpus")
    if profile.overview.devices or reconciled is None or reconciled.threads_busy is None:
        return None
    if not isinstance(usable, int | float) or usable < 2:
        return None
    parts = shares(profile)
    threads = profile.facts.get("torch.num_threads")
    if isinstance(threads, int) and threads >= CROWDED * usable and parts.get("cpu", 0.0) >= THRESHOLD:
        return _find_crowded(profile, threads, usable, parts.get("cpu", 0.0))
    left = usable - max(0.0, reconciled.others or 0.0)
    if reconciled.threads_busy >= THRESHOLD * left:
        return None
    if limit(profile, parts) != "cpu" or reconciled.threads_busy < parts.get("cpu", 0.0):
        return None  # less than one CPU: crowded_cpu speaks of it
    large = sum(
        row.host_self_ns for row in operators(profile, r"aten::.*") if row.host_self_ns >= LARGE * row.calls
    )
    gain = min(per_step(profile, large), step(profile) * parts.get("cpu", 0.0))
    gain *= 1 - reconciled.threads_busy / left
    if share(profile, gain) < WORTH:
        return None
    setting = f"; torch is set to {threads} threads" if isinstance(threads, int) else ""
    few = isinstance(threads, int) and threads < int(usable)
    return finding(
        profile,
        f"{reconciled.threads_busy:.1f} of {usable:g} CPUs are busy while operators take"
        f" {percent(share(profile, step(profile) * parts.get('cpu', 0.0)))} of the step{setting}",
        gain_is="time in operators that are large enough to be shared, if they used all CPUs",
        limits=("cpu",),
        evidence={"threads_busy": reconciled.threads_busy, "usable_cpus": usable, "threads": threads},
        change=f"torch.set_num_threads({int(usable)})"
        if few
        else "larger operators (batch), fewer small ones (torch.compile), or several processes",
        optimization="threads" if few else "",
        reaches={"compute": gain},
    )


def _find_crowded(profile: Profile, threads: int, usable: float, working: float) -> Finding | None:
    """Threads that take CPUs from one another: each operator waits for its slowest part."""
    gain = step(profile) * working * (1 - usable / threads)
    return finding(
        profile,
        f"torch is set to {threads} threads, and {usable:g} CPUs can be used: operators wait for threads"
        " that wait for a CPU",
        gain_is="time in operators, if it grew with the number of threads for a CPU",
        limits=("cpu",),
        evidence={"usable_cpus": usable, "threads": threads},
        change=f"torch.set_num_threads({int(usable)})",
        optimization="threads",
        reaches={"compute": gain},
    )
