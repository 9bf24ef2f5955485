"""What no change may touch, whatever its class: numbers stay finite, as many optimizer steps on as many
samples at the same learning rate, clipped as before, with parameters of the same type.

Only class `algorithm` may change batch, learning rate and number of steps: then it is asked that there is a
rate at all.
"""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import Literal

from laptime.records.tuning import GateCheck
from laptime.tuning.gates.captured_numerics import Found, Step

CLIPPED = 0.99
"""Gradients count as clipped when their norm has become this share of what it was, or less."""
LOOSENED = 1.02
"""A norm may exceed the one that the baseline was clipped to by so much: the gate's 2 % (tune.md, GATE 1)."""
_SAME = 1e-9
"""Relative difference of learning rates that computing them in another order may make."""


def checked(
    name: str,
    outcome: Literal["ok", "fail", "unknown"],
    sentence: str,
    value: float | None = None,
    limit: float | None = None,
) -> GateCheck:
    """A check, with digits that people read."""
    return GateCheck(name=name, outcome=outcome, sentence=sentence, value=value, limit=limit)


def checks(found: Found, numerics: str) -> list[GateCheck]:
    """All of them, in the order in which they explain each other."""
    made = [_finite(found), _steps(found, numerics)]
    if numerics == "algorithm":
        return [*made, _rate_is_stated(found), _dtype(found), _clipping(found)]
    return [
        *made,
        _effective_batch(found),
        _learning_rate(found),
        _settings(found),
        _dtype(found),
        _clipping(found),
    ]


def _pairs(found: Found) -> list[tuple[Step, Step]]:
    return list(zip(found.candidate.steps, found.base.steps, strict=False))


def _finite(found: Found) -> GateCheck:
    if not found.candidate.steps:
        return checked("finite", "unknown", "no step was witnessed")
    for number, step in enumerate(found.candidate.steps, 1):
        bad = {group: count for group, count in step.bad.items() if count}
        lost = sum(1 for loss in step.losses if loss is None)
        if not bad and not lost:
            continue
        what = f"{next(iter(bad.values()))} values of {next(iter(bad))} are" if bad else "the loss is"
        base = found.base.steps[number - 1] if number <= len(found.base.steps) else Step()
        if any(base.bad.values()) or None in base.losses:
            return checked("finite", "unknown", f"step {number}: {what} NaN or infinite, as in the baseline")
        return checked("finite", "fail", f"step {number}: {what} NaN or infinite")
    return checked("finite", "ok", "all losses, gradients, parameters and states are finite")


def _steps(found: Found, numerics: str) -> GateCheck:
    own, base = len(found.candidate.steps), len(found.base.steps)
    wanted = max(found.asked, 1)
    if min(own, base) < wanted:
        return checked("steps", "unknown", f"{min(own, base)} of {wanted} steps were witnessed", own, wanted)
    if numerics == "algorithm":
        return checked("steps", "ok", f"{own} steps were witnessed", own)
    for number, (mine, theirs) in enumerate(_pairs(found), 1):
        if mine.optimizer_steps != theirs.optimizer_steps:
            own, base = mine.optimizer_steps, theirs.optimizer_steps
            text = f"step {number}: the optimizer stepped {own} times, {base} before"
            return checked("steps", "fail", text, own, base)
    return checked("steps", "ok", f"{own} steps, the optimizer stepped as often in each", own, base)


def _effective_batch(found: Found) -> GateCheck:
    pairs = _pairs(found)
    if not any(theirs.samples for _, theirs in pairs):
        return checked("effective_batch", "unknown", "no loader has told how many samples a step has")
    for number, (mine, theirs) in enumerate(pairs, 1):
        if mine.samples != theirs.samples:
            text = f"step {number} has {mine.samples} samples, {theirs.samples} before"
            return checked("effective_batch", "fail", text, mine.samples, theirs.samples)
    text = f"{pairs[0][0].samples} samples a step, as before"
    return checked("effective_batch", "ok", text, pairs[0][0].samples, pairs[0][1].samples)


def _learning_rate(found: Found) -> GateCheck:
    pairs = _pairs(found)
    if not any(theirs.rates for _, theirs in pairs):
        return checked("learning_rate", "unknown", "the optimizer has told no learning rate")
    for number, (mine, theirs) in enumerate(pairs, 1):
        for one, other in zip_longest(mine.rates, theirs.rates):
            if one is None or other is None or not math.isclose(one, other, rel_tol=_SAME):
                text = f"step {number}: learning rate {_shown(one)}, {_shown(other)} before"
                return checked("learning_rate", "fail", text, one, other)
    return checked(
        "learning_rate", "ok", "the same at every step", pairs[0][0].rates[0], pairs[0][1].rates[0]
    )


def _shown(rate: float | None) -> str:
    return "none" if rate is None else f"{rate:.6g}"


def _rate_is_stated(found: Found) -> GateCheck:
    rates = [rate for step in found.candidate.steps for rate in step.rates]
    if not rates:
        return checked("learning_rate", "unknown", "the optimizer has told no learning rate")
    if any(rate is None or rate < 0 for rate in rates):
        return checked("learning_rate", "fail", "a learning rate is no number, or below 0")
    first = next((rate for step in found.base.steps for rate in step.rates), None)
    return checked("learning_rate", "ok", f"now {_shown(rates[0])}, {_shown(first)} before", rates[0])


def _settings(found: Found) -> GateCheck:
    """Momentum, betas, eps, weight decay of every group."""
    own, base = found.candidate.settings, found.base.settings
    if not own or not base:
        return checked("optimizer_settings", "unknown", "the optimizer has told no settings")
    if len(own) != len(base):
        return checked("optimizer_settings", "fail", f"{len(own)} parameter groups, {len(base)} before")
    for mine, theirs in zip(own, base, strict=True):
        for name in sorted(set(mine) & set(theirs)):
            if mine[name] != theirs[name]:
                text = f"{name} of the optimizer is {mine[name]}, {theirs[name]} before"
                return checked("optimizer_settings", "fail", text)
    return checked("optimizer_settings", "ok", "momentum, decay and the like are as before")


def _dtype(found: Found) -> GateCheck:
    if not found.totals:
        return checked("dtype", "unknown", "no tensors were compared")
    if found.dtypes_count:
        worst = found.dtypes[0]
        more = f", and {found.dtypes_count - 1} more" if found.dtypes_count > 1 else ""
        text = f"{worst.name} is kept in {worst.candidate}, in {worst.base} before{more}"
        return checked("dtype", "fail", text, found.dtypes_count, 0)
    return checked("dtype", "ok", "parameters and states are kept in the same types", 0, 0)


def _clipping(found: Found) -> GateCheck:
    """What the baseline has clipped is clipped: no longer than there, or shorter than before."""
    clipped = 0
    for number, (mine, theirs) in enumerate(_pairs(found), 1):
        whole = zip(mine.norm, mine.norm_before, theirs.norm, theirs.norm_before, strict=False)
        for norm, before, base, base_before in whole:
            if norm is None or before is None or base is None or not base_before:
                continue
            if base > CLIPPED * base_before:
                continue
            clipped += 1
            if norm > CLIPPED * before and norm > LOOSENED * base:
                text = f"step {number}: gradients are no longer clipped: norm {norm:.4g}, {base:.4g} before"
                return checked("clipping", "fail", text, norm, base * LOOSENED)
    text = (
        f"gradients are clipped as before ({clipped} times)" if clipped else "the script clips no gradients"
    )
    return checked("clipping", "ok", text)
