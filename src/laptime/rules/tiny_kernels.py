"""Most kernels are tiny: their fixed costs outweigh their work.

Lies when: they run beside larger ones on other streams, and cost nothing.
Source: 10 us is the usual bound of a tiny kernel (about the cost of a launch); 5 % of the step is our own.
"""

from __future__ import annotations

from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import DEVICE, finding, per_step, share, times

MOST = 0.5
THRESHOLD = 0.05


def rule(profile: Profile) -> Finding | None:
    """Fire when over half of the kernels are below 10 us and together take 5 % of the step."""
    launches = profile.launches
    count = profile.overview.totals.kernels or (launches.launches if launches is not None else 0)
    if launches is None or not count or launches.tiny < MOST * count:
        return None
    spent = per_step(profile, launches.tiny_ns)
    if share(profile, spent) < THRESHOLD:
        return None
    number = launches.tiny / max(1, profile.overview.steps)
    often = sorted((row for row in profile.kernels if row.mean_ns < 10_000), key=lambda row: -row.total_ns)
    return finding(
        profile,
        "tiny-kernels",
        f"{launches.tiny / count:.0%} of the kernels are shorter than 10 us: {number:,.0f} per step take"
        f" {times(profile, spent)}",
        gain=spent,
        gain_is="all time in kernels below 10 us: fused, they take a part of it",
        limits=DEVICE,
        evidence={"tiny": launches.tiny, "kernels": count, "tiny_ns": launches.tiny_ns},
        rows=[f"kernels/{row.id}" for row in often[:4]],
        change="torch.compile(model): fuses elementwise operators into few kernels",
        optimization="compile",
    )
