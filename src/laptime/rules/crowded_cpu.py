"""The program waits for operators but does not get the CPU: other programs use it.

Lies when: operators themselves wait (for a file, a lock, a device that the trace does not show).
Source: our own: a thread inside an operator keeps one CPU busy; below 0.85 of one it was kept from running.
Other programs that use a quarter of the CPUs leave no step as it would be alone."""

from laptime.kit.units import percent
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._verdict import limit, shares

WHOLE = 0.85
CROWDED = 0.25  # share of the usable CPUs that others had


def rule(profile: Profile) -> Finding | None:
    """Compare the CPU time of the untraced steps with the time in operators. Without an accelerator only."""
    plain = profile.reconciled
    if profile.overview.devices or plain is None or plain.threads_busy is None:
        return None
    parts = shares(profile)
    working = parts.get("cpu", 0.0)
    if limit(profile, parts) != "cpu":
        return None
    usable, others = profile.facts.get("usable_cpus"), plain.others or 0.0
    sentence = (
        f"operators take {percent(working)} of the step, but only {plain.threads_busy:.2f} CPUs were busy"
        " with them: other programs or a quota kept this one from running, and all times here are too long"
    )
    if isinstance(usable, int | float) and others >= CROWDED * usable:
        used = f"other programs used {others:.1f} of {usable:g} CPUs while the script ran"
        sentence = f"{used}: all times here are too long"
    elif plain.threads_busy >= WHOLE * working:
        return None
    return finding(
        profile,
        sentence,
        loud="advice",
        evidence={"threads_busy": plain.threads_busy, "share_in_operators": working, "others": others},
        change="stop the other programs, or raise the container's CPU limit, and profile again",
        next="laptime doctor   (shows who else uses the CPUs)",
    )
