"""All checks of a gate -> one word with its reason. What is not known is never passed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from laptime.records.quantity import KEPT, UNDECIDED, Judgement
from laptime.records.tuning import GATED, Gate, GateCheck, Numerics
from laptime.tuning.gates import data, invariants, numeric
from laptime.tuning.gates.invariants import checked
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
        checks.append(checked("steps", UNDECIDED, "no training step was captured"))
    else:
        checks += invariants.checks(candidate, numerics)
        checks += numeric.checks(candidate, numerics, again, rounded, perturbed)
        checks += _applied(candidate)
    if samples is not None:
        data_class = "random" if "random" in all_classes and numerics != "algorithm" else numerics
        checks += data.checks(samples.data, data_class, samples_again.data if samples_again else None)
        checks += _applied(samples)
    elif needs_samples or {"random", "algorithm"} & all_classes:
        checks.append(checked("samples", UNDECIDED, "the loader's samples are not known"))
    return gate_of(numerics, candidate.steps if candidate else 0, checks)


def _applied(comparison: NumericsComparison) -> list[GateCheck]:
    """A change that was refused is not in what was captured."""
    if not comparison.refused:
        return []
    first = comparison.refused[0]
    text = f"{first.get('name', 'a change')} could not be applied: {first.get('why', '')}"
    return [checked("applied", UNDECIDED, text)]


def gate_of(numerics: Numerics, steps: int, checks: list[GateCheck]) -> Gate:
    """The gate of these checks: its word is that of the worst; of none undecided."""
    checks = sorted(checks, key=lambda each: CAUSES.index(each.name) if each.name in CAUSES else len(CAUSES))
    worst = Judgement.of_all(each.outcome for each in checks) if checks else UNDECIDED
    cause = next((each for each in checks if each.outcome is worst and worst is not KEPT), None)
    if cause is not None:
        reason = f"{cause.name.replace('_', ' ')}: {cause.sentence}"
    else:
        reason = (
            f"{len(checks)} checks on {steps} steps of captured batches" if checks else "nothing was checked"
        )
    return Gate(word=GATED[worst], numerics=numerics, steps=steps, reason=reason, checks=checks)
