"""The device runs kernels less than half of the time, and the host is why.

Lies when: the batch is given (serving, reinforcement learning), or memory does not allow a larger one.
Source: the TensorBoard plugin's 50 % GPU utilisation. It fires for any cause; a larger batch does not help
when the device waits for data or for other ranks, so these causes are left to their own rules.
"""

from __future__ import annotations

from laptime.kit.units import percent
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding
from laptime.rules._reading import MANY_LAUNCHES, idle_seconds, launches_per_step, step, times, utilization
from laptime.rules._verdict import limit, shares

THRESHOLD = 0.5


def rule(profile: Profile) -> Finding | None:
    """Advise a larger batch: the same host work then feeds more device work."""
    used = utilization(profile)
    if used is None or used >= THRESHOLD or step(profile) <= 0:
        return None
    if limit(profile, shares(profile)) not in ("host", "device"):
        return None
    launched = launches_per_step(profile)
    if launched is not None and launched < MANY_LAUNCHES:
        return None  # the host does something else than launching; a larger batch does not shorten that
    gain = idle_seconds(profile, "host")
    size = [use.sm_efficiency for use in profile.overview.devices if use.sm_efficiency is not None]
    fill = f"; running kernels fill the device to {percent(max(size) / used)}" if size and used > 0 else ""
    return finding(
        profile,
        "low-utilization",
        f"the device runs kernels {percent(used)} of the time;"
        f" it waits for the host {times(profile, gain)}{fill}",
        gain=gain,
        gain_is="idle time that the host causes: a larger batch hides it, per step of as many samples",
        loud="advice",
        evidence={"utilization": used, "sm_efficiency": size},
        change="a larger batch: DataLoader(..., batch_size=2 * batch_size), learning rate adapted",
        optimization="batch_size",
    )
