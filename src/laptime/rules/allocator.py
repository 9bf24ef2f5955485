"""Device memory is allocated and freed by the driver inside the steps: the caching allocator cannot serve.

Lies when: the profiled steps are the first ones, in which the cache is still growing.
Source: PyTorch's notes on memory management; 1 % of the step is our own threshold."""

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import ENOUGH_STEPS, often, per_step, share, times

THRESHOLD = 0.01
FULL = 0.9  # share of the device's memory that tensors hold from which on freeing is retrying
CALLS = ("cudaMalloc", "cudaFree", "hipMalloc", "hipFree")
NEEDS = frozenset({"!beginning"})


def rule(profile: Profile) -> Finding | None:
    """Fire when it happens in every step."""
    steps = profile.overview.steps
    rows = [
        row for row in (profile.launches.calls if profile.launches is not None else []) if row[0] in CALLS
    ]
    spent = per_step(profile, sum(ns for _, _, ns in rows))
    calls = sum(number for _, number, _ in rows)
    if steps < ENOUGH_STEPS or calls < steps or share(profile, spent) < THRESHOLD:
        return None
    freed = sum(number for name, number, _ in rows if "Free" in name) >= steps
    full = max((row.peak / row.capacity for row in profile.memory if row.peak and row.capacity), default=0.0)
    retries = freed and full >= FULL
    return finding(
        profile,
        f"the driver allocates and frees device memory {often(calls / steps)}"
        f" ({', '.join(name for name, _, _ in rows)}): {times(profile, spent)}"
        + ("; memory is full, so cached blocks are freed and allocated again" if retries else ""),
        gain=spent,
        gain_is="all time in these calls",
        evidence={"calls": {name: number for name, number, _ in rows}},
        change="PYTORCH_ALLOC_CONF=expandable_segments:True (before torch 2.9: PYTORCH_CUDA_ALLOC_CONF)"
        + (", and a step that needs less memory" if retries else ""),
        optimization="expandable_segments",
        reaches={"synchronisation": spent, "host": spent, "copy": spent},
    )
