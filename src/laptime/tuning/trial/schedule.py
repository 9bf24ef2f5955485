"""Which modes a diagnosis runs, in which order, for how many steps. Pure.

Safe ones first, in random order rounds; then those in which a script may fail, harmless to risky.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

SECONDS = 15.0
"""Of steps that are worth a diagnosis."""
BLOCK = 0.05
"""Seconds that a block is worth, up to MOST steps."""
MOST = 10
ROUNDS = 8
SLOW = 1.0
"""Seconds of a step from which on no step is spent on what can be derived, and none on getting used to."""
DRAINED = 8
"""Steps at most until batches are used up that workers have fetched while the loop did not ask."""
FETCHES = frozenset({"whole", "synchronised", "traced", "no_optimizer", "lint"})
"""Modes that ask the loader."""


@dataclass(frozen=True)
class Planned:
    """Steps of one mode: `skip` that do not count, then `steps`."""

    mode: str
    round: int = 0
    skip: int = 0
    steps: int = 1


@dataclass(frozen=True)
class Known:
    """What is known of the loop when its diagnosis is planned.

    Attributes:
        step: seconds of a step. queued: batches that workers keep ready.
        can_cache: a batch of a loader was kept. accelerator: there is one. closure: its optimizer calls the
            model. scaler: gradients are scaled. compiled: torch.compile is used. cuts: modes among
            half_batch and double_batch that the batch allows.
    """

    step: float
    queued: int = 0
    can_cache: bool = True
    accelerator: bool = False
    closure: bool = False
    scaler: bool = False
    compiled: bool = False
    cuts: tuple[str, ...] = ()


def plan(known: Known, *, seconds: float, order: int) -> list[Planned]:
    """Blocks in the order in which they run."""
    budget = min(SECONDS, seconds)
    step = max(known.step, 1e-5)
    steps = min(MOST, max(1, round(BLOCK / step)))
    modes = _modes(known)
    skip = 0 if step > SLOW else 1
    drained = min(known.queued, DRAINED, max(0, int(0.1 * budget / step)))
    each = step * (len(modes) * (steps + skip) + drained)
    rounds = min(ROUNDS, max(1, int(0.6 * budget / each)))
    rng = random.Random(order)  # noqa: S311, no secret
    planned: list[Planned] = []
    for number in range(rounds):
        shuffled = list(modes)
        rng.shuffle(shuffled)
        for mode in shuffled:
            last = planned[-1].mode if planned else "whole"
            more = drained if mode in FETCHES and last not in FETCHES else 0
            planned.append(Planned(mode, number, skip + more, steps))
    if known.accelerator:
        planned.append(Planned("synchronised", 0, skip, steps))
        planned.append(Planned("traced", 0, skip, steps))
    return [*planned, *_risky(known, skip, steps)]


def _modes(known: Known) -> list[str]:
    """What every round has. `whole` is there twice: against itself it tells the noise."""
    slow = known.step > SLOW and not known.accelerator
    found = ["whole"] if slow else ["whole", "whole"]
    found += ["cached"] if known.can_cache else []
    if known.can_cache and known.accelerator:
        found.append("on_device")
    if not slow and not known.closure:  # a closure's step gives the loss, and scripts use it
        found.append("no_optimizer")
        found += ["forward_backward"] if known.can_cache else []
    return found


def _risky(known: Known, skip: int, steps: int) -> list[Planned]:
    found = [Planned("lint", steps=2 if known.step <= SLOW else 1)]
    slow = known.step > SLOW and not known.accelerator
    # Without a backward pass a GradScaler's step finds no gradients and raises.
    if not (slow or known.closure or known.scaler) and known.can_cache:
        found.append(Planned("forward", 0, skip, steps))
    if not known.compiled:  # another shape is compiled anew, for minutes
        found += [Planned(mode, 0, skip, steps) for mode in known.cuts]
    return found
