"""Most kernels are tiny: their fixed costs outweigh their work.

Lies when: they run beside larger ones on other streams, and cost nothing.
Source: 10 us is the usual bound of a tiny kernel (about the cost of a launch); 5 % of the step is our own.
"""

from __future__ import annotations

import re

from laptime.kit.units import percent
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import DEVICE, finding
from laptime.rules._reading import MANY_LAUNCHES, per_step, share, times
from laptime.rules._verdict import limit, shares

_WHOLE = re.compile(r"gemm|gemv|conv|cutlass|cijk|attn|flash|fmha|nccl|rccl|all_?reduce", re.IGNORECASE)
"""Kernels that no compiler fuses away: matrix products, attention, collectives."""
MOST = 0.5
THRESHOLD = 0.05


def rule(profile: Profile) -> Finding | None:
    """Fire when over half of the kernels are below 10 us and together take 5 % of the step."""
    launches = profile.launches
    count = profile.overview.totals.kernels or (launches.launches if launches is not None else 0)
    if launches is None or not count or launches.tiny < MOST * count:
        return None
    number = launches.tiny / max(1, profile.overview.steps)
    tiny = sorted((row for row in profile.kernels if row.mean_ns < 10_000), key=lambda row: -row.total_ns)
    fusible = [row for row in tiny if not _WHOLE.search(row.name)]
    part = sum(row.total_ns for row in fusible) / sum(row.total_ns for row in tiny) if tiny else 1.0
    spent = per_step(profile, launches.tiny_ns * part)
    if share(profile, spent) < THRESHOLD or number < MANY_LAUNCHES:
        return None
    if limit(profile, shares(profile)) not in DEVICE:
        return None  # host_bound speaks of them
    return finding(
        profile,
        "tiny-kernels",
        f"{percent(launches.tiny / count)} of the kernels are shorter than 10 us: {number:,.0f} a step;"
        f" without products and collectives they take {times(profile, spent)}",
        gain=spent,
        gain_is="all time in kernels below 10 us that compute elementwise, reduce or copy",
        limits=DEVICE,
        evidence={"tiny": launches.tiny, "kernels": count, "tiny_ns": launches.tiny_ns},
        rows=[f"kernels/{row.id}" for row in fusible[:4]],
        change="torch.compile(model): fuses elementwise operators into few kernels",
        optimization="compile",
    )
