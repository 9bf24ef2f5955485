"""Invariants of every change, whatever its class: numbers stay finite, as many optimizer steps on as many
samples at the same learning rate, clipped as before, with parameters of the same type.

Only class `algorithm` may change batch, learning rate and number of steps: then there must be a rate at all.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement
from laptime.records.tuning import GateCheck
from laptime.tuning.trial.messages import CapturedStep, NumericsComparison

CLIPPED = 0.99  # gradients count as clipped when their norm has become this share of what it was, or less
LOOSENED = 1.02
"""Factor by which a norm may exceed the one that the baseline was clipped to: the gate's 2 % (tune.md, GATE
1)."""
_SAME = 1e-9  # relative difference of learning rates that computing them in another order may make


def report(
    name: str, outcome: Judgement, sentence: str, value: float | None = None, limit: float | None = None
) -> GateCheck:
    """A check; `value` was compared with `limit`."""
    return GateCheck(name=name, outcome=outcome, sentence=sentence, value=value, limit=limit)


def word(checks: Sequence[GateCheck]) -> Judgement:
    """The worst of the answers; kept of none."""
    return Judgement.of_all(check.outcome for check in checks)


def checks(comparison: NumericsComparison, numerics: str) -> list[GateCheck]:
    """All invariants that hold for this class, in the order in which they explain each other."""
    as_before = [_effective_batch, _learning_rate, _settings]
    own = [_rate_is_stated] if numerics == "algorithm" else as_before
    others = [check(comparison) for check in (*own, _dtype, _clipping)]
    return [_finite(comparison), _steps(comparison, numerics), *others]


def _pairs(comparison: NumericsComparison) -> list[tuple[CapturedStep, CapturedStep]]:
    return list(zip(comparison.candidate.steps, comparison.base.steps, strict=False))


def _finite(comparison: NumericsComparison) -> GateCheck:
    if not comparison.candidate.steps:
        return report("finite", UNDECIDED, "no step was captured")
    for number, step in enumerate(comparison.candidate.steps, 1):
        bad = {group: count for group, count in step.bad.items() if count}
        lost = sum(1 for loss in step.losses if loss is None)
        if not bad and not lost:
            continue
        what = f"{next(iter(bad.values()))} values of {next(iter(bad))} are" if bad else "the loss is"
        old = comparison.base.steps[number - 1] if number <= len(comparison.base.steps) else CapturedStep()
        if any(old.bad.values()) or None in old.losses:
            return report("finite", UNDECIDED, f"step {number}: {what} NaN or infinite, as in the baseline")
        return report("finite", BROKEN, f"step {number}: {what} NaN or infinite")
    return report("finite", KEPT, "all losses, gradients, parameters and states are finite")


def _steps(comparison: NumericsComparison, numerics: str) -> GateCheck:
    new, old = len(comparison.candidate.steps), len(comparison.base.steps)
    planned = max(comparison.planned, 1)
    if min(new, old) < planned:
        return report("steps", UNDECIDED, f"{min(new, old)} of {planned} steps were captured", new, planned)
    if numerics == "algorithm":
        return report("steps", KEPT, f"{new} steps were captured", new)
    for number, (candidate, base) in enumerate(_pairs(comparison), 1):
        if candidate.optimizer_steps != base.optimizer_steps:
            new, old = candidate.optimizer_steps, base.optimizer_steps
            text = f"step {number}: the optimizer stepped {new} times, {old} before"
            return report("steps", BROKEN, text, new, old)
    return report("steps", KEPT, f"{new} steps, the optimizer stepped as often in each", new, old)


def _effective_batch(comparison: NumericsComparison) -> GateCheck:
    pairs = _pairs(comparison)
    if not any(base.samples for _, base in pairs):
        return _shapes(pairs)
    for number, (candidate, base) in enumerate(pairs, 1):
        if candidate.samples != base.samples:
            text = f"step {number} has {candidate.samples} samples, {base.samples} before"
            return report("effective_batch", BROKEN, text, candidate.samples, base.samples)
        rows, rows_before = _rows(candidate), _rows(base)
        if 0 < rows < rows_before:
            text = f"step {number} calls models with {rows} samples, with {rows_before} before"
            return report("effective_batch", BROKEN, text, rows, rows_before)
    text = f"{pairs[0][0].samples} samples a step, as before"
    return report("effective_batch", KEPT, text, pairs[0][0].samples, pairs[0][1].samples)


def _rows(step: CapturedStep) -> int:
    """Samples that reach models, by the first tensor of each call: less than before is lost on the way."""
    return sum(call[0][0] for call in step.shapes if call and call[0])


def _shapes(pairs: list[tuple[CapturedStep, CapturedStep]]) -> GateCheck:
    """Without a loader (a script's own `get_batch`) the batch is what its models are called with."""
    if not any(any(base.shapes) for _, base in pairs):
        text = "neither a loader nor a call of a model says how many samples a step has"
        return report("effective_batch", UNDECIDED, text)
    for number, (candidate, base) in enumerate(pairs, 1):
        if candidate.shapes != base.shapes:
            new, old = _shapes_text(candidate), _shapes_text(base)
            text = f"step {number} calls models with {new}, with {old} before"
            return report("effective_batch", BROKEN, text)
    text = f"no loader; models are called with {_shapes_text(pairs[0][1])}, as before"
    return report("effective_batch", KEPT, text)


def _shapes_text(step: CapturedStep) -> str:
    """The shapes of each call: `8x64, 8x64 (4 times)`."""
    calls = Counter(", ".join("x".join(map(str, shape)) for shape in call if shape) for call in step.shapes)
    texts = [f"{text} ({count} times)" if count > 1 else text for text, count in calls.items() if text]
    return "; ".join(texts) or "no tensors"


NO_RATE = "no step of an optimizer that has a learning rate was captured"


def _learning_rate(comparison: NumericsComparison) -> GateCheck:
    pairs = _pairs(comparison)
    if not any(base.rates for _, base in pairs):
        return report("learning_rate", UNDECIDED, NO_RATE)
    for number, (candidate, base) in enumerate(pairs, 1):
        for one, other in zip_longest(candidate.rates, base.rates):
            if one is None or other is None or not math.isclose(one, other, rel_tol=_SAME):
                text = f"step {number}: learning rate {_rate_text(one)}, {_rate_text(other)} before"
                return report("learning_rate", BROKEN, text, one, other)
    return report("learning_rate", KEPT, "the same at every step", pairs[0][0].rates[0], pairs[0][1].rates[0])


def _rate_text(rate: float | None) -> str:
    return "none" if rate is None else f"{rate:.6g}"


def _rate_is_stated(comparison: NumericsComparison) -> GateCheck:
    rates = [rate for step in comparison.candidate.steps for rate in step.rates]
    if not rates:
        return report("learning_rate", UNDECIDED, NO_RATE)
    if any(rate is None or rate < 0 for rate in rates):
        return report("learning_rate", BROKEN, "a learning rate is not a number, or below 0")
    first = next((rate for step in comparison.base.steps for rate in step.rates), None)
    return report("learning_rate", KEPT, f"now {_rate_text(rates[0])}, {_rate_text(first)} before", rates[0])


def _settings(comparison: NumericsComparison) -> GateCheck:
    """Momentum, betas, eps, weight decay of every group."""
    new, old = comparison.candidate.settings, comparison.base.settings
    if not new or not old:
        return report("optimizer_settings", UNDECIDED, "the optimizer has no settings")
    if len(new) != len(old):
        return report("optimizer_settings", BROKEN, f"{len(new)} parameter groups, {len(old)} before")
    for candidate, base in zip(new, old, strict=True):
        for name in sorted(set(candidate) & set(base)):
            if candidate[name] != base[name]:
                text = f"{name} of the optimizer is {candidate[name]}, {base[name]} before"
                return report("optimizer_settings", BROKEN, text)
    return report("optimizer_settings", KEPT, "momentum, decay and the like are as before")


def _dtype(comparison: NumericsComparison) -> GateCheck:
    if not comparison.totals:
        return report("dtype", UNDECIDED, "no tensors were compared")
    if comparison.dtypes_count:
        worst = comparison.dtypes[0]
        more = f", and {comparison.dtypes_count - 1} more" if comparison.dtypes_count > 1 else ""
        text = f"{worst.name} is kept in {worst.candidate}, in {worst.base} before{more}"
        return report("dtype", BROKEN, text, comparison.dtypes_count, 0)
    return report("dtype", KEPT, "parameters and states are kept in the same types", 0, 0)


def _clipping(comparison: NumericsComparison) -> GateCheck:
    """If the baseline clips, so must the candidate: to no more than there, or to less than before
    clipping."""
    clipped = 0
    for number, (candidate, base) in enumerate(_pairs(comparison), 1):
        whole = zip(candidate.norm, candidate.norm_before, base.norm, base.norm_before, strict=False)
        for norm, before, old, base_before in whole:
            if norm is None or before is None or old is None or not base_before:
                continue
            if old > CLIPPED * base_before:
                continue
            clipped += 1
            if norm > CLIPPED * before and norm > LOOSENED * old:
                text = f"step {number}: gradients are no longer clipped: norm {norm:.4g}, {old:.4g} before"
                return report("clipping", BROKEN, text, norm, old * LOOSENED)
    text = f"gradients are clipped as before ({clipped} times)"
    return report("clipping", KEPT, text if clipped else "the script clips no gradients")
