"""Blocks of steps with parts left out: planned, timed, and what their times say. Pure, but for the clock.

A diagnosis runs safe modes first, in rounds of random order; then those in which a script may fail, harmless
to risky.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log, sqrt
from statistics import fmean, median
from time import perf_counter
from typing import Any

from laptime.tuning.loop_profile import SHARES, UNKNOWN_NOISE

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
MANY = 5
PARTS = ("data", "transfer", "forward", "backward", "optimizer", "other")


@dataclass(frozen=True)
class PlannedBlock:
    """Steps of one mode: `skip` that do not count, then `steps`."""

    mode: str
    round: int = 0
    skip: int = 0
    steps: int = 1


@dataclass(frozen=True)
class LoopTraits:
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


def plan_blocks(known: LoopTraits, *, seconds: float, order: int) -> list[PlannedBlock]:
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
    planned: list[PlannedBlock] = []
    for number in range(rounds):
        shuffled = list(modes)
        rng.shuffle(shuffled)
        for mode in shuffled:
            last = planned[-1].mode if planned else "whole"
            more = drained if mode in FETCHES and last not in FETCHES else 0
            planned.append(PlannedBlock(mode, number, skip + more, steps))
    if known.accelerator:
        planned.append(PlannedBlock("synchronised", 0, skip, steps))
        planned.append(PlannedBlock("traced", 0, skip, steps))
    return [*planned, *_risky(known, skip, steps)]


def _modes(known: LoopTraits) -> list[str]:
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


def _risky(known: LoopTraits, skip: int, steps: int) -> list[PlannedBlock]:
    found = [PlannedBlock("lint", steps=2 if known.step <= SLOW else 1)]
    slow = known.step > SLOW and not known.accelerator
    # Without a backward pass a GradScaler's step finds no gradients and raises.
    if not (slow or known.closure or known.scaler) and known.can_cache:
        found.append(PlannedBlock("forward", 0, skip, steps))
    if not known.compiled:  # another shape is compiled anew, for minutes
        found += [PlannedBlock(mode, 0, skip, steps) for mode in known.cuts]
    return found


class PartClock:
    """Adds up the parts of a step.

    Attributes:
        waits: whether each part ends only when the device is done. Without it parts are the host's.
    """

    def __init__(self, wait: Callable[[], None]) -> None:
        self.waits = False
        self._wait = wait
        self._part = "other"
        self._since = perf_counter()
        self._seconds = dict.fromkeys(PARTS, 0.0)

    def begins(self, part: str) -> str:
        """From now on time counts for this part; the part before is given back."""
        if self.waits:
            self._wait()
        now = perf_counter()
        self._seconds[self._part] += now - self._since
        self._since, before, self._part = now, self._part, part
        return before

    def cut(self) -> dict[str, float]:
        """Seconds by part since the last cut."""
        self.begins("other")
        found, self._seconds = self._seconds, dict.fromkeys(PARTS, 0.0)
        return found


@dataclass
class TimedBlock:
    """Steps of one mode, back to back.

    Attributes:
        seconds: of each step; with an accelerator the block's, divided evenly. parts: of each step.
        host: seconds until the host has started all of the block's first step; with an accelerator only.
        samples: in each step. faults: minor page faults in each.
    """

    mode: str
    round: int
    seconds: list[float] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    host: float | None = None
    faults: list[int] = field(default_factory=list)

    def last(self) -> TimedBlock:
        """The last step alone."""
        return TimedBlock(self.mode, self.round, self.seconds[-1:], self.parts[-1:], self.samples[-1:])


def what_if(taken: list[TimedBlock]) -> dict[str, float]:
    """Median seconds of a step by mode."""
    found: dict[str, list[float]] = {}
    for block in taken:
        found.setdefault(block.mode, []).extend(block.seconds)
    return {mode: median(seconds) for mode, seconds in found.items() if seconds}


def parts(taken: list[TimedBlock], mode: str) -> dict[str, float]:
    """Mean seconds of each part under a mode; {} where it never ran."""
    seen = [each for block in taken if block.mode == mode for each in block.parts]
    return {part: fmean(each[part] for each in seen) for part in PARTS} if seen else {}


def shares(
    seconds: dict[str, float], measured: dict[str, float], *, accelerator: bool, workers: bool
) -> dict[str, float]:
    """Seconds of a whole step by part; never negative, they add up to it.

    On the CPU the parts were measured. Where loader workers compete for its cores, what the step gains
    without a loader counts as data if that is more. With an accelerator data and transfer are what the step
    gains without them, because they may be hidden behind the device; the rest is divided as the synchronised
    parts are.

    Args:
        seconds: of a step by mode, see `what_if`.
        measured: seconds by part; with an accelerator, waited for.
    """
    whole = seconds.get("whole", 0.0)
    if whole <= 0.0:
        return dict.fromkeys(SHARES, 0.0)
    found = {part: max(0.0, measured.get(part, 0.0)) for part in PARTS}
    total = sum(found.values())
    if total <= 0.0:
        return {**dict.fromkeys(SHARES, 0.0), "other": whole}
    found = {part: value * whole / total for part, value in found.items()}
    if not accelerator:  # nothing is moved: what was between batch and model is the script's own work
        found["other"] += found["transfer"]
        found["transfer"] = 0.0
    without = seconds.get("cached")
    if without is not None and accelerator:
        found["data"] = min(whole, max(0.0, whole - without))
        moved = seconds.get("on_device")
        left = whole - found["data"]
        found["transfer"] = found["transfer"] if moved is None else min(left, max(0.0, without - moved))
        return _rest(found, whole, fixed=("data", "transfer"))
    if without is not None and workers:
        found["data"] = min(whole, max(found["data"], whole - without))
        return _rest(found, whole, fixed=("data",))
    return found


def _rest(found: dict[str, float], whole: float, fixed: tuple[str, ...]) -> dict[str, float]:
    """Scaled, but for some parts, so that all add up to the whole."""
    left = max(0.0, whole - sum(found[part] for part in fixed))
    free = sum(value for part, value in found.items() if part not in fixed)
    if free <= 0.0:
        return {**found, "other": left}
    return {part: value if part in fixed else value * left / free for part, value in found.items()}


def noise(taken: list[TimedBlock]) -> float:
    """Relative standard deviation of the script against itself: log ratios of paired whole blocks.

    A block stands for itself by its median, so that the first step of an epoch does not count. The deviation
    is about zero, which is what the ratios are of; from MANY on by their median size (x 1.4826, as for normal
    ones), so that one disturbed block does not count either. With less than three pairs of blocks, ratios of
    steps that follow each other. Few ratios say little: they weigh against an ordinary machine as so many
    against one (one ratio of 18 %, of a process that was still warming up, made every interval useless).
    """
    blocks = [block for block in taken if block.mode == "whole" and block.seconds]
    values = [median(block.seconds) for block in blocks]
    if len(values) < 6:
        values = [second for block in blocks for second in block.seconds]
    ratios = [abs(log(a / b)) for a, b in zip(values[::2], values[1::2], strict=False) if a > 0 and b > 0]
    if len(ratios) >= MANY:
        return 1.4826 * median(ratios)
    if not ratios:
        return 0.0
    weight = len(ratios) / (len(ratios) + 1)
    return float(sqrt(fmean(each * each for each in ratios)) ** weight * UNKNOWN_NOISE ** (1 - weight))


def derived(seconds: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    """Modes that need not run on a CPU, where parts follow each other: from the parts of whole steps."""
    whole, total = seconds.get("whole"), sum(measured.values())
    if whole is None or total <= 0.0:
        return {}
    scale = whole / total  # parts are means, the step is a median
    data, backward, optimizer = (scale * measured[part] for part in ("data", "backward", "optimizer"))
    found = {
        "no_optimizer": whole - optimizer,
        "forward_backward": whole - optimizer - data,
        "forward": whole - optimizer - data - backward,
    }
    return {mode: max(0.0, value) for mode, value in found.items()}


def as_json(taken: list[TimedBlock]) -> list[dict[str, Any]]:
    """The blocks, for who wants to know how it was found."""
    return [{"mode": each.mode, "round": each.round, "seconds": each.seconds} for each in taken]
