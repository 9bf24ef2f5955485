"""Python's garbage collector stops the loop.

Lies when: the program collects on purpose, once in many steps, and the recording caught it.
Source: Python's documentation of `gc.freeze`; 2 % of the step is our own threshold."""

from laptime.kit.units import show
from laptime.rules import _facts
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import WORTH, often, per_step, share, times


def rule(profile: Profile) -> Finding | None:
    """Sum up the collections, as far as the device had nothing to do meanwhile."""
    row = next(iter(_facts.host_work(profile, "collection")), None)
    gain = per_step(profile, row.idle_ns) if row is not None else 0.0
    if row is None or share(profile, gain) < WORTH:
        return None
    return finding(
        profile,
        f"Python collects garbage {often(row.calls / max(1, profile.overview.steps))}, up to"
        f" {show(row.longest_ns * 1e-9, 's')} at a time: {times(profile, gain)}"
        + (" while the device has nothing to do" if profile.overview.devices else ""),
        gain=gain,
        gain_is="collections, as far as the device has nothing to do meanwhile",
        evidence={"collections": row.calls, "host_s_per_step": per_step(profile, row.host_ns)},
        change="gc.collect(); gc.freeze() once the model is built, and no gc.collect() in the loop",
        optimization="gc_freeze",
        stack=row.stack,
        reaches={"host": gain, "synchronisation": gain},
    )
