"""One way to write a finding: how severe its gain is, rows that exist, the user's own place in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from laptime.records.check import Finding
from laptime.records.profile import Bound, Profile
from laptime.rules._changes import possible
from laptime.rules._claims import Pool
from laptime.rules._reading import ENOUGH_STEPS, SERIOUS, WORTH, share, step
from laptime.rules._verdict import limit, shares

_LIBRARY = re.compile(
    r"(site|dist)-packages/|(^|/)(torch|laptime)/|^<|/lib/python3|(^|/)(threading|contextlib|runpy)\.py"
    r"|nn\.Module:"
)
_FRAMEWORK = re.compile(
    r"(^|/)(transformers|torchvision|torchaudio|timm|diffusers|accelerate|lightning|pytorch_lightning|deepspeed"
    r"|vllm|sglang|numpy|PIL|torchrec|fairscale|megatron)/"
)
Severity = Literal["info", "advice", "problem"]
DEVICE: tuple[Bound, ...] = ("device", "copy", "communication", "unknown")
HOST: tuple[Bound, ...] = ("host", "synchronisation", "cpu", "unknown")


def severity(profile: Profile, gain: float | None, limits: tuple[Bound, ...] = ()) -> Severity:
    """How loud: problem from 20 % of the step, advice from 2 %; at most advice from a single step, or when
    something else limits the step (`limits` are the bounds under which the gain can be had at once)."""
    part = share(profile, gain or 0.0)
    alone = bool(limits) and limit(profile, shares(profile)) not in limits
    if part >= SERIOUS and profile.overview.steps >= ENOUGH_STEPS and not alone:
        return "problem"
    return "advice" if part >= WORTH else "info"


def finding(
    profile: Profile,
    kind: str,
    sentence: str,
    *,
    gain: float | None = None,
    gain_is: str = "",
    loud: Severity | None = None,
    limits: tuple[Bound, ...] = (),
    evidence: dict[str, Any] | None = None,
    rows: Iterable[str] = (),
    change: str = "",
    optimization: str = "",
    stack: list[str] | None = None,
    next: str = "",
    reaches: dict[Pool, float] | None = None,
) -> Finding:
    """A finding with its gain kept inside the step, and only rows that the profile has.

    Args:
        gain: upper bound in seconds per step; gain_is: how it was computed, in words.
        loud: severity, when it is not to follow from the gain.
        limits: see `severity`.
        optimization: left out where the tuner would refuse it.
        reaches: seconds per step of which pools the change can reach (see `_claims`).
    """
    if gain is not None:
        gain = max(0.0, min(step(profile), gain))
    existing_rows = row_names(profile)
    return Finding(
        kind=f"trace/{kind}",
        severity=loud or severity(profile, gain, limits),
        sentence=sentence,
        evidence={
            **(evidence or {}),
            **({"gain_is": gain_is} if gain_is else {}),
            **({"reaches": {pool: part for pool, part in reaches.items() if part > 0}} if reaches else {}),
        },
        gain=gain,
        change=change,
        optimization=possible(profile, optimization),
        stack=from_user_code(stack or []),
        rows=[row for row in dict.fromkeys(rows) if row in existing_rows][:8],
        next=next,
    )


def from_user_code(stack: list[str]) -> list[str]:
    """A call stack (innermost first) from the first frame that is the user's; without one from the first of a
    library that is built on torch, whose models users read; [] when there is nothing but torch."""
    readable = [at for at, frame in enumerate(stack) if not _LIBRARY.search(frame)]
    own = [at for at in readable if not _FRAMEWORK.search(stack[at])]
    return stack[(own or readable)[0] :] if readable else []


def row_names(profile: Profile) -> set[str]:
    """Every row of the tables that a finding can name."""
    tables = {
        "operators": [row.id for row in (*profile.operators, *profile.operators_by_shape)],
        "kernels": [row.id for row in (*profile.kernels, *profile.kernels_by_launch)],
        "copies": [row.id for row in profile.copies],
        "modules": [row.id for row in profile.modules],
        "memory": [row.device for row in profile.memory],
        "ranks": [str(row.rank) for row in profile.ranks],
    }
    return {f"{table}/{name}" for table, ids in tables.items() for name in ids}
