"""Kernels are tried inside the recorded steps: cuDNN's benchmark mode, Triton's and Inductor's autotuning.

Lies when: shapes change in every step, so that trying never ends; then it is a cost of each step.
Source: PyTorch's documentation of `cudnn.benchmark` and of Inductor's `max_autotune`; 2 % is our own."""

from laptime.rules import _facts
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import WORTH, per_step, share, times


def rule(profile: Profile) -> Finding | None:
    """Say how long it takes, and that it belongs before the recording."""
    row = next(iter(_facts.host_work(profile, "autotuning")), None)
    spent = per_step(profile, row.host_ns) if row is not None else 0.0
    if row is None or share(profile, spent) < WORTH:
        return None
    idle = per_step(profile, row.idle_ns)
    names = [name for name, _ in row.names[:2]]
    return finding(
        profile,
        f"kernels are tried inside the recorded steps, in {' and '.join(names)}: {times(profile, spent)};"
        " steps without it are shorter",
        gain=spent,
        gain_is="time of the host in it, the mean over the recorded steps",
        loud="advice",
        evidence={"names": names, "idle_s_per_step": idle},
        change="record later, after every shape has been seen: torch.profiler.schedule(wait=1, warmup=3,"
        " active=5)",
        next="fixed shapes, if it goes on in every step",
        stack=row.stack,
        reaches={"synchronisation": idle, "host": idle, "compute": spent},
    )
