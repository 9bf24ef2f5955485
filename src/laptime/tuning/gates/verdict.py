"""All questions of a gate -> one word with its reason. What is not known is never passed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from laptime.records.tuning import Gate, GateCheck, Numerics
from laptime.tuning.gates import data, invariants, numeric
from laptime.tuning.gates.captured_numerics import Found, decoded
from laptime.tuning.optimization import NUMERICS

CAUSES = (
    "dtype",
    "steps",
    "effective_batch",
    "learning_rate",
    "optimizer_settings",
    "clipping",
    "last_batch",
    "augmentation",
    "samples",
    "batches",
    "order",
    "duplicates",
    "content",
    "distribution",
    "batchnorm",
    "finite",
    "gradient_norm",
    "gradient_direction",
)
"""Checks that explain the others; the first of them that failed is the reason."""


def farthest(classes: Iterable[str]) -> Numerics:
    """The most far-reaching class: the one whose gate a recipe of several changes has to pass."""
    return cast(Numerics, max(classes, key=NUMERICS.index, default="exact"))


def judge(
    classes: Iterable[str],
    document: dict[str, Any] | None,
    *,
    again: dict[str, Any] | None = None,
    rounded: dict[str, Any] | None = None,
    perturbed: dict[str, Any] | None = None,
    samples: dict[str, Any] | None = None,
    samples_again: dict[str, Any] | None = None,
    needs_samples: bool = False,
) -> Gate:
    """The gate of a recipe.

    Args:
        classes: numerics classes of its changes.
        document: gate.json of the candidate against the baseline; None when the trial has left none.
        again: the same of the baseline's second run: its own non-determinism.
        rounded: the same of the baseline with its activations rounded: what lower precision may turn.
        perturbed: the same of the baseline with the last bits of its activations rounded away: what another
            order of summation may do. Only looked at for class reassociated.
        samples: gate.json of a trial that ran the loader alone; samples_again: of the baseline's second one.
        needs_samples: without `samples` nothing is decided. So it is for the classes random and algorithm.
    """
    wanted = list(classes)
    numerics = farthest(wanted)
    found, floor = decoded(document), decoded(again)
    made: list[GateCheck] = []
    if found is None or not found.steps:
        made.append(GateCheck(name="steps", outcome="unknown", sentence="no training step was witnessed"))
    else:
        made += invariants.checks(found, numerics)
        made += numeric.checks(found, numerics, floor, decoded(rounded), decoded(perturbed))
        made += _applied(found)
    of_data = "random" if "random" in wanted and numerics != "algorithm" else numerics
    loaders, loaders_again = decoded(samples), decoded(samples_again)
    if loaders is not None:
        made += data.checks(loaders.data, of_data, loaders_again.data if loaders_again else None)
        made += _applied(loaders)
    elif needs_samples or {"random", "algorithm"} & set(wanted):
        made.append(
            GateCheck(name="samples", outcome="unknown", sentence="the loader's samples are not known")
        )
    return _word(numerics, found.steps if found else 0, made)


def _applied(found: Found) -> list[GateCheck]:
    """A change that was refused was not witnessed."""
    if not found.refused:
        return []
    first = found.refused[0]
    text = f"{first.get('name', 'a change')} could not be applied: {first.get('why', '')}"
    return [GateCheck(name="applied", outcome="unknown", sentence=text)]


def _word(numerics: Numerics, steps: int, made: list[GateCheck]) -> Gate:
    made = sorted(made, key=lambda check: CAUSES.index(check.name) if check.name in CAUSES else len(CAUSES))
    failed = [check for check in made if check.outcome == "fail"]
    unknown = [check for check in made if check.outcome == "unknown"]
    if failed:
        reason = f"{failed[0].name.replace('_', ' ')}: {failed[0].sentence}"
        return Gate(word="failed", numerics=numerics, steps=steps, reason=reason, checks=made)
    if unknown or not made:
        text = (
            f"{unknown[0].name.replace('_', ' ')}: {unknown[0].sentence}"
            if unknown
            else "nothing was checked"
        )
        return Gate(word="undecided", numerics=numerics, steps=steps, reason=text, checks=made)
    reason = f"{len(made)} checks on {steps} steps of captured batches"
    return Gate(word="passed", numerics=numerics, steps=steps, reason=reason, checks=made)
