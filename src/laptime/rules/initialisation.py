"""The recording is mostly a beginning: contexts, libraries, captured graphs, and no step that shows anything.

Lies when: the program is all beginning (one call, then its end), and that is the thing to measure.
Source: CUDA makes a context at the first call that needs one and loads modules lazily (CUDA programming
guide,
"Lazy Loading"); half of the recording is our own threshold."""

from laptime.rules import _facts
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._verdict import beginning


def rule(profile: Profile) -> Finding | None:
    """Say what the beginning consists of, and how to record what comes after it."""
    if _facts.beginning(profile) < _facts.MOSTLY:
        return None
    rows = _facts.host_work(profile, *_facts.BEGINNING)
    if all(row.kind == "autotuning" for row in rows):
        return None  # autotuning speaks of it
    return finding(
        profile,
        f"{beginning(profile)}: this happens once, before the first step, and no step can be judged by it",
        loud="advice",
        evidence={row.kind: row.host_ns for row in rows},
        change="record later: run a few steps first, then torch.profiler.schedule(wait=1, warmup=2,"
        " active=5)",
    )
