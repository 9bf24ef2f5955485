"""The words of a gate: all its checks in one, and whether the final set trains as well.

What is not known is never passed. Convergence is non-inferiority, paired by seed, with a margin that is set
beforehand (tune.md, GATE 2). Pairs share their seed, and so initial weights and the order of the data: that
took the standard deviation of a difference from 0.018 to 0.0007 there. The word is

holds          the one-sided 95 % upper bound of the mean difference is below the margin
fails          its lower bound is above the margin, or the loss is not finite, but the baseline's is
inconclusive   neither, or less than three seeds, or too few steps"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import cast

from msgspec import structs

from laptime.analysis.student_t import t_quantile
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement
from laptime.records.tuning import GATED, Convergence, ConvergenceWord, Gate, GateCheck, Numerics
from laptime.tuning.gates import data, invariants, numeric
from laptime.tuning.gates.invariants import report
from laptime.tuning.optimization import farthest
from laptime.tuning.trial.messages import NumericsComparison

CAUSES = (
    *("dtype", "steps", "effective_batch", "learning_rate", "optimizer_settings", "clipping"),
    *("last_batch", "augmentation", "samples", "batches", "order", "duplicates", "content", "distribution"),
    *("batchnorm", "finite", "gradient_norm", "gradient_direction"),
)
"""Checks that explain the others; the first of them that failed is the reason."""


def judge(
    classes: Iterable[str],
    candidate: NumericsComparison | None,
    *,
    again: NumericsComparison | None = None,
    rounded: Sequence[NumericsComparison] = (),
    perturbed: Sequence[NumericsComparison] = (),
    samples: NumericsComparison | None = None,
    samples_again: NumericsComparison | None = None,
    needs_samples: bool = False,
) -> Gate:
    """The gate of a recipe. All comparisons are with the baseline.

    Args:
        classes: numerics classes of the recipe's changes.
        candidate: the recipe; None when its trial has compared nothing.
        again: the baseline's second run: its own non-determinism.
        rounded: the baseline with its activations rounded, a draw each: what lower precision may turn.
        perturbed: the baseline with the last bits of its activations rounded away, a draw each: what another
            order of summation may do. Only used for class reassociated.
        samples: the recipe's loaders, run alone; samples_again: the baseline's loaders, run once more.
        needs_samples: without `samples` nothing is decided. So it is for the classes random and algorithm.
    """
    all_classes = set(classes)
    numerics = cast(Numerics, farthest(all_classes))
    checks: list[GateCheck] = []
    if candidate is None or not candidate.steps:
        checks.append(report("steps", UNDECIDED, "no training step was captured"))
    else:
        checks += invariants.checks(candidate, numerics)
        checks += numeric.checks(candidate, numerics, again, rounded, perturbed)
        checks += _note_refused(candidate)
        of_itself = invariants.checks(again, numerics) if again else []
        if own := [each for each in of_itself if each.outcome is BROKEN]:
            text = f"the script as it is differs from itself: {own[0].sentence}"
            checks = [report(one.name, UNDECIDED, text) if one.outcome is BROKEN else one for one in checks]
    if samples is not None:
        data_class = "random" if "random" in all_classes and numerics != "algorithm" else numerics
        checks += data.checks(samples.data, data_class, samples_again.data if samples_again else None)
        checks += _note_refused(samples)
    elif needs_samples or {"random", "algorithm"} & all_classes:
        checks.append(report("samples", UNDECIDED, "the loader's samples are not known"))
    return gate_of(numerics, candidate.steps if candidate else 0, checks)


def _note_refused(comparison: NumericsComparison) -> list[GateCheck]:
    """A change that was refused is not in what was captured."""
    if not comparison.refused:
        return []
    first = comparison.refused[0]
    text = f"{first.get('name', 'a change')} could not be applied: {first.get('why', '')}"
    return [report("applied", UNDECIDED, text)]


def gate_of(numerics: Numerics, steps: int, checks: list[GateCheck]) -> Gate:
    """The gate of these checks: its word is that of the worst; of none undecided."""
    checks = sorted(checks, key=lambda each: CAUSES.index(each.name) if each.name in CAUSES else len(CAUSES))
    worst = Judgement.of_all(check.outcome for check in checks) if checks else UNDECIDED
    cause = next((check for check in checks if check.outcome is worst and worst is not KEPT), None)
    passed = f"{len(checks)} checks on {steps} steps of captured batches" if checks else "nothing was checked"
    reason = f"{cause.name.replace('_', ' ')}: {cause.sentence}" if cause else passed
    return Gate(word=GATED[worst], numerics=numerics, steps=steps, reason=reason, checks=checks)


# Convergence


SEEDS = 3  # fewest pairs that can say anything
STEPS = 20  # fewest steps of a curve
HORIZON = 500  # steps below which it is a smoke test, and called so
LAST = 0.1  # share of a curve, at its end, whose mean is its final smoothed loss
SHARE = 0.5  # of the baseline's standard deviation over seeds: the default margin (tune.md, GATE 2)
LEVEL = 0.95


def final_loss(curve: list[float]) -> float:
    """Mean of the last tenth of a loss curve."""
    return fmean(curve[-max(1, round(LAST * len(curve))) :])


def margin(baseline: list[list[float]]) -> float | None:
    """Return how much worse the final loss may be: half the baseline's standard deviation over seeds.

    Computed from the baseline alone, before anything else has run. None below two seeds."""
    finals = [final_loss(curve) for curve in baseline if curve]
    if len(finals) < 2 or not all(math.isfinite(value) for value in finals):
        return None
    return SHARE * stdev(finals)


def judge_loss(baseline: list[list[float]], final: list[list[float]], allowed: float | None) -> Convergence:
    """The word for losses by step of both, one list a seed, in the same order of seeds. allowed: what
    `margin` said before `final` was run."""
    pairs = [(one, other) for one, other in zip(baseline, final, strict=False) if one and other]
    steps = min((min(len(one), len(other)) for one, other in pairs), default=0)

    known = Convergence(
        margin=allowed,
        seeds=len(pairs),
        steps=steps,
        smoke_test=steps < HORIZON,
        baseline=baseline,
        final=final,
    )

    def result(word: ConvergenceWord, sentence: str, **measured: float) -> Convergence:
        note = f" ({steps} steps: a smoke test)" if known.smoke_test else ""
        return structs.replace(known, word=word, sentence=sentence + note, **measured)

    ends = [(final_loss(one[:steps]), final_loss(other[:steps])) for one, other in pairs] if steps else []
    for one, other in ends:
        if math.isfinite(one) and not math.isfinite(other):
            return result("fails", "the loss is not finite, but the baseline's is")
    if len(pairs) < SEEDS:
        return result("inconclusive", f"{len(pairs)} seeds are too few, {SEEDS} are needed")
    if steps < STEPS:
        return result("inconclusive", f"{steps} steps are too few, {STEPS} are needed")
    if allowed is None or not all(math.isfinite(one) for one, _ in ends):
        return result("inconclusive", "the baseline gives no margin")
    differences = [other - one for one, other in ends]
    if all(value == 0 for value in differences):
        return result("holds", "the losses are the same", difference=0.0, upper=0.0)
    mean = fmean(differences)
    reach = t_quantile(LEVEL, len(differences) - 1) * stdev(differences) / math.sqrt(len(differences))
    measured = {"difference": mean, "upper": mean + reach}
    text = f"loss {mean:+.4g} on average over {len(differences)} seeds, {mean + reach:+.4g} at most"
    if mean + reach < allowed:
        return result("holds", f"{text}, below the margin of {allowed:.4g}", **measured)
    if mean - reach > allowed:
        return result("fails", f"{text}: more than the margin of {allowed:.4g}", **measured)
    return result("inconclusive", f"{text}; the margin is {allowed:.4g}", **measured)
