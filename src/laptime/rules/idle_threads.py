"""CPUs stand idle while operators run.

Lies when: other programs use them; or operators are too small to be shared between threads.
Source: our own: at least one CPU busy, and below 60 % of the usable ones, while operators limit the step.
"""

from __future__ import annotations

from laptime.kit.units import percent
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding
from laptime.rules._reading import share, step
from laptime.rules._verdict import limit, shares

THRESHOLD = 0.6


def rule(profile: Profile) -> Finding | None:
    """Compare busy threads of the untraced steps with the usable CPUs. Without an accelerator only."""
    reconciled = profile.reconciled
    usable = profile.facts.get("usable_cpus")
    if profile.overview.devices or reconciled is None or reconciled.threads_busy is None:
        return None
    if not isinstance(usable, int | float) or usable < 2 or reconciled.threads_busy >= THRESHOLD * usable:
        return None
    parts = shares(profile)
    if limit(profile, parts) != "cpu" or reconciled.threads_busy < parts.get("cpu", 0.0):
        return None  # less than one CPU: crowded_cpu speaks of it
    gain = step(profile) * parts.get("cpu", 0.0) * (1 - reconciled.threads_busy / usable)
    threads = profile.facts.get("torch.num_threads")
    setting = f"; torch is set to {threads} threads" if isinstance(threads, int) else ""
    few = isinstance(threads, int) and threads < int(usable)
    return finding(
        profile,
        "idle-threads",
        f"{reconciled.threads_busy:.1f} of {usable:g} CPUs are busy while operators take"
        f" {percent(share(profile, step(profile) * parts.get('cpu', 0.0)))} of the step{setting}",
        gain=gain,
        gain_is="time in operators, if they used all CPUs",
        limits=("cpu",),
        evidence={"threads_busy": reconciled.threads_busy, "usable_cpus": usable, "threads": threads},
        change=f"torch.set_num_threads({int(usable)})"
        if few
        else "larger operators (batch), fewer small ones (torch.compile), or several processes",
        optimization="threads" if few else "",
    )
