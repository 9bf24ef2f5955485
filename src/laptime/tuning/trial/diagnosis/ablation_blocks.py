"""Steps with parts left out, in blocks of one variant: which are run, and what their times say.

    whole             as it is              cached            a kept batch, the loader is not asked
    on_device         kept on the device    no_optimizer      optimizers do not step
    forward_backward  cached, no optimizer  forward           and no backward pass
    half_batch, double_batch                the kept batch cut or doubled
    synchronised      each part waited for  lint, traced      see `sync_detector`

Safe variants come first, in rounds of random order; then those in which a script may fail, harmless to risky.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log, sqrt
from statistics import fmean, median
from time import perf_counter

from laptime.tuning.loop_profile import SHARES, UNKNOWN_NOISE

SECONDS = 15.0  # spent on steps at most
BLOCK = 0.05  # seconds that a block should take, with at most MOST steps
MOST = 10
ROUNDS = 8
SLOW = 1.0
"""Seconds: from such a step on nothing is run that can be derived, and a switch of variants skips no step."""
DRAINED = 8  # steps at most that use up batches which workers fetched while the loop did not ask
CONTRADICTS = 0.2  # share of a step by which two measurements of the same part may differ
MANY = 5  # ratios from which on their median tells the noise
NO_OPTIMIZER = frozenset({"no_optimizer", "forward_backward", "forward"})
CACHED = frozenset({"cached", "on_device", "forward_backward", "forward", "half_batch", "double_batch"})
CUTS = ("half_batch", "double_batch")
RISKY = frozenset({"forward", *CUTS})


@dataclass(frozen=True)
class LoopTraits:
    """The traits that decide which variants are run."""

    step: float  # seconds of a step
    queued: int = 0  # batches that workers keep ready
    can_cache: bool = True  # a batch of a loader was kept
    accelerator: bool = False  # there is one
    closure: bool = False  # its optimizer calls the model
    scaler: bool = False  # gradients are scaled
    compiled: bool = False  # torch.compile is used
    cuts: tuple[str, ...] = ()  # those of CUTS that the batch allows

    @property
    def is_slow(self) -> bool:
        """Whether variants that can be derived are left out: on the CPU, where parts follow each other."""
        return self.step > SLOW and not self.accelerator


def plan_blocks(traits: LoopTraits, *, seconds: float, order: int) -> list[TimedBlock]:
    """Blocks in the order in which they run; `order` is the seed of their random order."""
    budget = min(SECONDS, seconds)
    step = max(traits.step, 1e-5)
    steps = min(MOST, max(1, round(BLOCK / step)))
    variants = ["whole"] if traits.is_slow else ["whole", "whole"]  # against itself it tells the noise
    variants += ["cached"] if traits.can_cache else []
    variants += ["on_device"] if traits.can_cache and traits.accelerator else []
    if not traits.is_slow and not traits.closure:  # a closure's step gives the loss, and scripts use it
        variants += ["no_optimizer", *(["forward_backward"] if traits.can_cache else [])]
    skip = 0 if step > SLOW else 1
    drained = min(traits.queued, DRAINED, max(0, int(0.1 * budget / step)))
    per_round = step * (len(variants) * (steps + skip) + drained)
    rounds = min(ROUNDS, max(1, int(0.6 * budget / per_round)))
    rng = random.Random(order)  # noqa: S311, no secret
    planned: list[TimedBlock] = []
    for number in range(rounds):
        shuffled = list(variants)
        rng.shuffle(shuffled)
        for variant in shuffled:
            was_cached = bool(planned) and planned[-1].variant in CACHED
            drains = drained if variant not in CACHED and was_cached else 0
            planned.append(TimedBlock(variant, number, skip=skip + drains, steps=steps))
    risky = [*traits.cuts] if not traits.compiled else []  # another shape is compiled anew, for minutes
    # Without a backward pass a GradScaler's step finds no gradients and raises.
    if not (traits.is_slow or traits.closure or traits.scaler) and traits.can_cache:
        risky.insert(0, "forward")
    last = [TimedBlock(variant, skip=skip, steps=steps) for variant in ("synchronised", "traced")]
    planned += last if traits.accelerator else []
    planned.append(TimedBlock("lint", steps=2 if traits.step <= SLOW else 1))
    return planned + [TimedBlock(variant, skip=skip, steps=steps) for variant in risky]


class PartClock:
    """Adds up the parts of a step, by what the loop did last.

    Unlike `instrument.steps` it counts the loss as forward, and what lies between a batch and the model
    apart: that is where a script moves its batch to the device. waits: each part ends only when the device
    is done. Without it parts are the host's."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.waits = False
        self._wait = wait
        self._part = "other"
        self._since = perf_counter()
        self._seconds = dict.fromkeys(SHARES, 0.0)

    def begins(self, part: str) -> str:
        """Count time for this part from now on; return the part before."""
        if self.waits:
            self._wait()
        now = perf_counter()
        self._seconds[self._part] += now - self._since
        self._since, before, self._part = now, self._part, part
        return before

    def cut(self) -> dict[str, float]:
        """Seconds by part since the last cut."""
        self.begins("other")
        seconds, self._seconds = self._seconds, dict.fromkeys(SHARES, 0.0)
        return seconds


@dataclass
class TimedBlock:
    """Steps of one variant, back to back."""

    variant: str
    round: int = 0
    # of each step; with an accelerator the block's, divided evenly
    seconds: list[float] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)  # of each step
    samples: list[int] = field(default_factory=list)  # in each step
    # seconds until the host has started all of the block's first step; with an accelerator only
    host: float | None = None
    faults: list[int] = field(default_factory=list)  # minor page faults in each
    skip: int = 0  # steps that do not count before them
    steps: int = 1  # that it is to have

    def last(self) -> TimedBlock:
        """The last step alone."""
        return TimedBlock(self.variant, self.round, self.seconds[-1:], self.parts[-1:], self.samples[-1:])

    def drop_last(self, steps: int) -> None:
        """Forget the last steps, whose seconds are not known yet."""
        for values in (self.parts, self.samples, self.faults):
            del values[-steps:]


def what_if(blocks: list[TimedBlock]) -> dict[str, float]:
    """Median seconds of a step by variant; a saving counts as far as three of four rounds show it."""
    times: defaultdict[tuple[int, str], list[float]] = defaultdict(list)  # medians, by round and variant
    by_variant: defaultdict[str, list[float]] = defaultdict(list)
    for block in (block for block in blocks if block.seconds):
        times[block.round, block.variant].append(median(block.seconds))
        by_variant[block.variant] += block.seconds
    found = {variant: median(seconds) for variant, seconds in by_variant.items()}
    for variant, seconds in found.items():
        rounds = [number for number, name in times if name == variant and (number, "whole") in times]
        savings = sorted(fmean(times[each, "whole"]) - fmean(times[each, variant]) for each in rounds)
        if len(savings) > 1:  # in three of four rounds, in all of fewer than four
            found[variant] = max(seconds, found["whole"] - max(0.0, savings[len(savings) // 4]))
    return found


def mean_parts(blocks: list[TimedBlock], variant: str) -> dict[str, float]:
    """Mean seconds of each part under a variant; {} if it never ran."""
    steps = [parts for block in blocks if block.variant == variant for parts in block.parts]
    return {part: fmean(parts[part] for parts in steps) for part in SHARES} if steps else {}


def shares(
    seconds: dict[str, float], measured: dict[str, float], *, accelerator: bool, workers: bool
) -> dict[str, float]:
    """Seconds of a whole step by part; never negative, they add up to it.

    On the CPU the parts were measured. If loader workers compete for its cores, what the step gains
    without a loader counts as data if that is more. With an accelerator data and transfer are what the step
    gains without them, because they may be hidden behind the device; the rest is divided as the synchronised
    parts are.

    seconds: of a step by variant, see `what_if`. measured: seconds by part; with an accelerator, waited for.
    """
    whole = max(0.0, seconds.get("whole", 0.0))
    parts = {part: max(0.0, measured.get(part, 0.0)) for part in SHARES}
    total = sum(parts.values())
    if whole * total <= 0.0:
        return {**dict.fromkeys(SHARES, 0.0), "other": whole}
    parts = {part: value * whole / total for part, value in parts.items()}
    if not accelerator:  # nothing is moved: what was between batch and model is the script's own work
        parts["other"] += parts["transfer"]
        parts["transfer"] = 0.0
    without, moved = seconds.get("cached"), seconds.get("on_device")
    if without is None or not (accelerator or workers):
        return parts
    data = min(whole, max(0.0 if accelerator else parts["data"], whole - without))
    fixed = {"data": data}
    if accelerator:
        hidden = parts["transfer"] if moved is None else min(whole - data, max(0.0, without - moved))
        fixed["transfer"] = hidden
    # The others are scaled so that all add up to the whole.
    left = max(0.0, whole - sum(fixed.values()))
    free = sum(value for part, value in parts.items() if part not in fixed)
    if free <= 0.0:
        return {**parts, **fixed, "other": left}
    return {part: fixed.get(part, value * left / free) for part, value in parts.items()}


def noise(blocks: list[TimedBlock]) -> float:
    """Relative standard deviation of the script against itself: log ratios of paired whole blocks.

    A block stands for itself by its median, so that the first step of an epoch does not count. The deviation
    is about zero, which is what the ratios are of; from MANY on by their median size (x 1.4826, as for normal
    ones), so that one disturbed block does not count either. With less than three pairs of blocks, ratios of
    steps that follow each other. Few ratios say little: they weigh against an ordinary machine as so many
    against one (one ratio of 18 %, of a process that was still warming up, made every interval useless)."""
    whole = [block for block in blocks if block.variant == "whole" and block.seconds]
    values = [median(block.seconds) for block in whole]
    if len(values) < 6:
        values = [second for block in whole for second in block.seconds]
    ratios = [abs(log(a / b)) for a, b in zip(values[::2], values[1::2], strict=False) if a > 0 and b > 0]
    if len(ratios) >= MANY:
        return 1.4826 * median(ratios)
    if not ratios:
        return 0.0
    weight = len(ratios) / (len(ratios) + 1)
    return float(sqrt(fmean(ratio * ratio for ratio in ratios)) ** weight * UNKNOWN_NOISE ** (1 - weight))


def derive(seconds: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    """Variants that need not run on a CPU, where parts follow each other: from the parts of whole steps."""
    whole, total = seconds.get("whole"), sum(measured.values())
    if whole is None or total <= 0.0:
        return {}
    left, found = whole, {}
    for part, variant in (
        ("optimizer", "no_optimizer"),
        ("data", "forward_backward"),
        ("backward", "forward"),
    ):
        left -= whole / total * measured[part]  # parts are means, the step is a median
        found[variant] = max(0.0, left)
    return found


def contradiction(seconds: dict[str, float], measured: dict[str, float]) -> str:
    """Say where leaving a part out saves much more or less than it takes, as on an uneven CPU; "" if not."""
    whole, total = seconds.get("whole", 0.0), sum(measured.values())
    for part, variant in (("optimizer", "no_optimizer"), ("data", "cached")):
        if whole > 0.0 < total and variant in seconds:
            saved, own = 1 - seconds[variant] / whole, measured[part] / total
            if abs(saved - own) > CONTRADICTS:
                without = f"a step without its {part} part takes {saved:.0%} less, and that part {own:.0%}"
                return f"{without}: the machine was not even, and shares of a step may be off by as much"
    return ""
