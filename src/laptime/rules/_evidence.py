"""One way to write a finding: how severe its gain is, rows that exist, the user's own place in it.

Gains can be had together: time of the step that several findings speak of is promised once. The step is a set
of pools: idle time by its cause, computing, communication and copies that nothing hides. A finding says how
much of which pool its change can reach (`evidence["reaches"]`); without that, any time of the step. Findings
take from the pools in turn, those that name one thing before those that name the rest of it (`GENERAL` of a
rule is above 0), the largest first, so gains never sum above the step. If the step is known without the
profiler, and the profiler made it longer, gains are told in proportion: a change saves time of the program,
not of its recording.

The tuner's catalogue refuses an optimization whose needs are not met; whoever is sent there by a finding
should not be turned away. The tables of `NEEDS` and of optimizers are checked against the catalogue and
against torch's signatures (tests/contract/test_advised_changes.py).

The words of a rule's contract can be imported from here."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import structs

from laptime.records.check import Finding
from laptime.records.profile import Bound, Profile
from laptime.rules import _facts
from laptime.rules import _reading as reading
from laptime.rules._verdict import limit, shares

__all__ = ["Finding", "Profile", "finding"]
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
    part = (gain or 0.0) / (reading.turn(profile) or 1.0)
    alone = bool(limits) and limit(profile, shares(profile)) not in limits
    if part >= reading.SERIOUS and profile.overview.steps >= reading.ENOUGH_STEPS and not alone:
        return "problem"
    return "advice" if part >= reading.WORTH else "info"


def finding(
    profile: Profile,
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
    reaches: "dict[Pool, float] | None" = None,
) -> Finding:
    """A finding with its gain kept inside the step, and only rows that the profile has. Its kind is that of
    the rule's file (`rules.diagnose`).

    gain: upper bound in seconds per step, else the sum of what it reaches; gain_is: how it was computed.
    loud: severity, when it is not to follow from the gain. limits: see `severity`. optimization: left out if
    the tuner would refuse it. reaches: seconds per step of which pools the change can reach (see the module):
    what was measured, so the gain is never more than their sum."""
    if reaches or gain is not None:
        whole = sum(reaches.values()) if reaches else reading.turn(profile)
        gain = max(0.0, min(reading.turn(profile), whole, whole if gain is None else gain))
    existing_rows = row_names(profile)
    return Finding(
        kind="",
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
    readable = [index for index, frame in enumerate(stack) if not _LIBRARY.search(frame)]
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


Pool = Literal[
    "data",
    "host",
    "synchronisation",
    "copy",
    "waiting",
    "other",
    "compute",
    "communication",
    "copies",
    "beside",
]
BOUNDS: dict[str, Bound] = {
    "data": "input", "beside": "input", "host": "host", "synchronisation": "synchronisation", "copy": "copy",
    "waiting": "communication", "compute": "device", "communication": "communication", "copies": "copy",
}  # fmt: skip
_IDLE = ("data", "host", "synchronisation", "copy", "other")


def pools(profile: Profile) -> dict[str, float]:
    """Seconds per step of each pool. Without a device: waiting for data, operators, Python, collectives."""
    uses = profile.overview.devices
    beside = reading.beside_steps(profile) * reading.slowdown(profile)
    if not uses:
        parts = {bound: part * profile.overview.step_ns * 1e-9 for bound, part in shares(profile).items()}
        data, compute, waiting = (parts.get(bound, 0.0) for bound in ("input", "cpu", "communication"))
        host = parts.get("host", 0.0) + parts.get("unknown", 0.0)
        return {"data": data, "compute": compute, "waiting": waiting, "host": host, "beside": beside}
    number = len(uses)
    return {
        **{cause: reading.idle_seconds(profile, cause) for cause in _IDLE},
        "beside": beside,
        "waiting": reading.idle_seconds(profile, "communication"),
        "compute": reading.per_step(profile, sum(use.compute_ns for use in uses) / number),
        "communication": reading.per_step(
            profile, sum(use.exposed_communication_ns for use in uses) / number
        ),
        "copies": reading.per_step(profile, sum(use.exposed_copy_ns for use in uses) / number),
    }


def settle(profile: Profile, findings: Sequence[Finding], general: Mapping[str, int]) -> list[Finding]:
    """The findings with gains that can be had together, the original order kept.

    One that keeps less than half of its gain, and less than is worth a line, says nothing of its own: it is
    left out.

    general: by kind of finding, how general it is: it takes what all with a lower number have left."""
    left, whole, slower = pools(profile), reading.turn(profile), reading.slowdown(profile)
    order = sorted(findings, key=lambda one: (general.get(one.kind, 0), -(one.gain or 0.0), one.kind))
    kept: dict[str, Finding] = {}
    for finding in order:
        if finding.gain is None:
            kept[finding.kind] = finding
            continue
        gain = min(_take(finding, left), whole)
        whole -= gain
        gain /= slower
        alone = finding.gain / slower
        if gain >= alone / 2 or reading.share(profile, gain * slower) >= reading.WORTH:
            kept[finding.kind] = _with_gain(profile, finding, gain, slower)
    return [kept[finding.kind] for finding in findings if finding.kind in kept]


def bound(profile: Profile, finding: Finding) -> Bound | None:
    """Return the bound that its change relieves: the pool that it reaches most of; None if not given."""
    reaches = finding.evidence.get("reaches", {})
    relieved = BOUNDS.get(max(reaches, key=lambda pool: reaches[pool], default=""))
    return "cpu" if relieved == "device" and not profile.overview.devices else relieved


def _take(finding: Finding, left: dict[str, float]) -> float:
    """Return the rest of what this finding reaches, and take it out of the pools."""
    wanted = finding.gain or 0.0
    reaches: dict[str, float] = finding.evidence.get("reaches", {})
    if not reaches or not left:
        return wanted
    taken = 0.0
    for pool, seconds in reaches.items():
        part = min(seconds, left.get(pool, 0.0), wanted - taken)
        left[pool] = left.get(pool, 0.0) - part
        taken += part
    return taken


def _with_gain(profile: Profile, finding: Finding, gain: float, slower: float) -> Finding:
    assert finding.gain is not None
    if gain >= finding.gain * (1 - 1e-9):
        return finding
    evidence = {**finding.evidence, "gain_alone_s": finding.gain / slower}
    if slower > 1:
        evidence["profiler_slowdown"] = slower
    part = gain * slower / reading.turn(profile)
    severity = "advice" if finding.severity == "problem" and part < reading.SERIOUS else finding.severity
    severity = "info" if part < reading.WORTH else severity
    return structs.replace(finding, gain=gain, evidence=evidence, severity=severity)


NEEDS: dict[str, frozenset[str]] = {
    "activation_checkpointing": frozenset({"!compiled"}),
    "batch_size": frozenset({"loader"}),
    "batched_fetch": frozenset({"loader"}),
    "channels_last": frozenset({"conv"}),
    "compile": frozenset({"!compiled"}),
    "compile_reduce_overhead": frozenset({"cuda", "!compiled"}),
    "expandable_segments": frozenset({"cuda"}),
    "fp16_autocast": frozenset({"cuda"}),
    "num_workers": frozenset({"loader"}),
    "persistent_workers": frozenset({"loader"}),
    "pin_memory": frozenset({"loader", "cuda"}),
    "tf32": frozenset({"cuda"}),
    "uint8_transfer": frozenset({"loader"}),
}
"""Of each optimization that a rule names: its needs, as far as a trace can tell them."""
FUSED = ("Adagrad", "Adam", "AdamW", "SGD")
FOREACH = (*FUSED, "ASGD", "Adadelta", "Adafactor", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop")
"""Optimizers of torch.optim that take `fused` and `foreach`. Adagrad's fused version runs on the CPU only."""


def possible(profile: Profile, optimization: str) -> str:
    """The optimization, "" if the tuner would refuse it."""
    if profile.workload is None or not optimization:
        return optimization
    if profile.workload.server or profile.workload.kind == "unknown":
        return ""  # the tuner starts scripts and models, no servers
    return "" if _facts.unmet(NEEDS.get(optimization, frozenset()), _facts.of(profile)) else optimization


def optimizer_switch(profile: Profile, name: str) -> str:
    """`fused=True`, `foreach=True`, or "" if this optimizer has neither."""
    fused = name in FUSED and not (name == "Adagrad" and profile.overview.devices)
    return "fused=True" if fused else "foreach=True" if name in FOREACH else ""
