"""A scripted machine for searches: knobs with known effects on the parts of a step, and the noise of a shared
computer. Sessions of an hour take milliseconds, and the truth is known.

The noise is made up after shared machines: the speed drifts as AR(1), every block scatters, one in seventeen
is a spike; on top of that the speed falls by a factor for some blocks now and then, and every process has a
speed of its own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import pstdev

from laptime.records.tuning import Gate, Numerics
from laptime.tuning.loop_profile import SHARES, LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import Candidate, CandidateSet, Round, TrialFailed

CACHED = 0.2
"""Share of a knob's `start` that every race after the first one takes."""

Parts = Mapping[str, float]
"""By name of a part of the step (`loop_profile.SHARES`): seconds, or factors of seconds."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """A scripted optimization.

    Attributes:
        name: of it. effect: factors of the parts it touches. levels: the same by value, for a knob with
            `value` options; the candidate recommends `start_at`.
        memory: factor of the peak. numerics, needs, gives, conflicts: as in the catalogue.
        claims: parts that its bound is taken from; none: those it touches. reach: share of them that it says
            it can save at most.
        start: seconds before its first round. fails: kind of `TrialFailed` that every trial of it ends in.
        gate: the word of its gate. prior: see `Candidate`.
    """

    name: str
    effect: Parts = field(default_factory=dict)
    levels: Mapping[int, Parts] = field(default_factory=dict)
    start_at: int | None = None
    memory: float = 1.0
    numerics: Numerics = "exact"
    needs: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()
    conflicts: frozenset[str] = frozenset()
    claims: tuple[str, ...] = ()
    reach: float = 0.6
    start: float = 0.0
    fails: str = ""
    gate: str = "passed"
    prior: float = 0.5

    def factors(self, change: Change) -> Parts:
        """What it does to the parts, with these options."""
        return self.levels.get(change.options.get("value", 0), self.effect) if self.levels else self.effect

    def changes(self) -> tuple[Change, ...]:
        """Every option, in order."""
        if not self.levels:
            return (Change(self.name),)
        return tuple(Change(self.name, {"value": value}) for value in self.levels)

    def recommended(self) -> Change:
        """What the candidate names first."""
        if not self.levels:
            return Change(self.name)
        return Change(self.name, {"value": self.start_at or next(iter(self.levels))})


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How a machine disturbs what is measured.

    Attributes:
        block: standard deviation of the log of a block. drift: innovation of the machine's AR(0.97) speed.
        spike: share of blocks that are hit; spike_size: mean of what a hit adds (exponential).
        flip: chance a block that the machine turns slow, by `flip_size`, for `flip_blocks` on the average.
        process: standard deviation of a process's own speed.
    """

    block: float = 0.02
    drift: float = 0.012
    spike: float = 0.06
    spike_size: float = 0.15
    flip: float = 0.01
    flip_size: float = 1.4
    flip_blocks: float = 8.0
    process: float = 0.005


@dataclass
class ScriptedEvaluator:
    """Knobs of known effect; satisfies `tuning.search.evaluator.Evaluator`.

    Attributes:
        parts: seconds of the script as it is. knobs: what could be tried. overlap: loading and computing
            run side by side, the step is the longer one; else their sum.
        together: further factors for knobs that are on together: ({names}, part, factor).
        steps: in a block. rounds_per_process: of one pair of processes. process_start: seconds.
        identity: the control is offered. facts: of the script. leaning: log by which every candidate
            comes out slower without being it: a machine that cannot be trusted.
        log: what was asked: ("diagnose" | "race" | "gate", names of the recipe).
    """

    parts: Parts
    knobs: tuple[Knob, ...]
    seed: int = 0
    noise: Noise = field(default_factory=Noise)
    overlap: bool = True
    together: tuple[tuple[frozenset[str], str, float], ...] = ()
    steps: int = 10
    rounds_per_process: int = 3
    process_start: float = 2.0
    diagnosis: float = 15.0
    gating: float = 4.0
    identity: bool = True
    facts: frozenset[str] = frozenset()
    leaning: float = 0.0
    log: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - a scripted machine, not a secret
        self.seconds = 0.0
        self.rounds = 0
        self.processes = 0
        self._speed = 0.0
        self._slow = False
        self._by_name = {knob.name: knob for knob in self.knobs}
        self._started: set[str] = set()
        self._true: dict[Recipe, float] = {}

    # The truth

    def true_parts(self, recipe: Recipe) -> dict[str, float]:
        """Seconds of every part under a recipe."""
        parts = {name: self.parts.get(name, 0.0) for name in SHARES}
        for change in recipe.changes:
            knob = self._by_name.get(change.name)
            for part, factor in knob.factors(change).items() if knob else ():
                parts[part] *= factor
        names = set(recipe.names)
        for needed, part, factor in self.together:
            if needed <= names:
                parts[part] *= factor
        return parts

    def true_step(self, recipe: Recipe) -> float:
        """Seconds of a step under a recipe."""
        known = self._true.get(recipe)
        if known is None:
            parts = self.true_parts(recipe)
            rest = sum(parts.values()) - parts["data"]
            known = max(parts["data"], rest) if self.overlap else parts["data"] + rest
            self._true[recipe] = known
        return known

    def best(self) -> tuple[Recipe, float]:
        """The best recipe of all that are allowed, and its seconds of a step; by trying every one."""
        best_yet = (Recipe(), self.true_step(Recipe()))
        recipes: list[Recipe] = [Recipe()]
        for knob in self.knobs:
            if knob.fails or knob.gate != "passed" or not (knob.effect or knob.levels):
                continue
            more = [recipe.plus(change) for recipe in recipes for change in knob.changes()]
            recipes += [recipe for recipe in more if self._allowed(recipe)]
        for recipe in recipes:
            step = self.true_step(recipe)
            self._true.pop(recipe, None)
            if step < best_yet[1]:
                best_yet = (recipe, step)
        return best_yet

    def _allowed(self, recipe: Recipe) -> bool:
        on = [self._by_name[name] for name in recipe.names]
        new = on[-1]
        return not any(
            new.gives & other.gives or new.conflicts & other.gives or other.conflicts & new.gives
            for other in on[:-1]
        )

    # What a search asks

    def elapsed(self) -> float:
        """Seconds of the scripted session."""
        return self.seconds

    def diagnose(self, recipe: Recipe) -> LoopProfile:
        """Shares with the scatter of a short measurement; data counts as far as it is not hidden."""
        self.log.append(("diagnose", recipe.names))
        self._fails(recipe)
        began = self.seconds
        self.seconds += self.diagnosis
        parts = self.true_parts(recipe)
        if self.overlap:
            parts["data"] = max(0.0, parts["data"] - (sum(parts.values()) - parts["data"]))
        shares = {name: value * math.exp(self.random.gauss(0, 0.02)) for name, value in parts.items()}
        step = self.true_step(Recipe())
        twins = [self._round(step, step, 1.0).ratio for _ in range(8)]
        facts = set(self.facts).union(*(self._by_name[name].gives for name in recipe.names))
        return LoopProfile(
            step=sum(shares.values()),
            shares=shares,
            facts=frozenset(facts),
            noise=pstdev(twins),
            batch=32,
            seconds=self.seconds - began,
        )

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        """Every knob that is not on, and the control."""
        found = [
            Candidate(
                change=next((own for own in recipe.changes if own.name == knob.name), knob.recommended()),
                title=knob.name,
                numerics=knob.numerics,
                bound=knob.reach * loop_profile.share(*(knob.claims or self._touched(knob))),
                cost=self._cost(recipe),
                start=knob.start + 2 * self.process_start,
                prior=knob.prior,
                space=knob.changes() if knob.levels else (),
                needs=knob.needs,
                gives=knob.gives,
                conflicts=knob.conflicts,
            )
            for knob in self.knobs
            if knob.levels or knob.name not in recipe.names
        ]
        if self.identity:
            found.append(Candidate(change=Change("identity"), cost=self._cost(recipe), live=True))
        return CandidateSet(tuple(found), {"fp8": "this device does not compute it"})

    def _touched(self, knob: Knob) -> tuple[str, ...]:
        return tuple({part for change in knob.changes() for part in knob.factors(change)}) or SHARES

    def _cost(self, recipe: Recipe) -> float:
        return 2 * self.steps * self.true_step(recipe) + 2 * self.process_start / self.rounds_per_process

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Iterator[Round]:
        """Paired rounds in random order; a new pair of processes every `rounds_per_process`."""
        self.log.append(("race", candidate.names))
        for name in candidate.names:
            # What was compiled once comes out of a cache.
            again = CACHED if name in self._started else 1.0
            self.seconds += again * self._by_name[name].start if name in self._by_name else 0.0
            self._started.add(name)
        self._fails(candidate)
        each = 1 if fresh else self.rounds_per_process
        steps = self.true_step(incumbent), self.true_step(candidate)
        memory = self._peak(candidate) / self._peak(incumbent)
        while True:
            self.processes += 1
            self.seconds += 2 * self.process_start
            first, second = (step * math.exp(self.random.gauss(0, self.noise.process)) for step in steps)
            for _ in range(each):
                yield self._round(first, second, memory)

    def _round(self, incumbent: float, candidate: float, memory: float) -> Round:
        """Two blocks of such steps, in random order."""
        times = [incumbent, candidate]
        for side in (0, 1) if self.random.random() < 0.5 else (1, 0):
            times[side] *= self._disturbance()
            self.seconds += self.steps * times[side]
        self.rounds += 1
        return Round(times[1] / times[0] * math.exp(self.leaning), memory, self.processes)

    def _peak(self, recipe: Recipe) -> float:
        return math.prod(self._by_name[name].memory for name in recipe.names if name in self._by_name)

    def _disturbance(self) -> float:
        noise = self.noise
        self._speed = 0.97 * self._speed + self.random.gauss(0, noise.drift)
        turns = noise.flip if not self._slow else 1 / noise.flip_blocks
        if self.random.random() < turns:
            self._slow = not self._slow
        log = self._speed + self.random.gauss(0, noise.block)
        log += math.log(noise.flip_size) if self._slow else 0.0
        hit = self.random.random() < noise.spike
        return math.exp(log) * (1 + (self.random.expovariate(1 / noise.spike_size) if hit else 0.0))

    def gate(self, incumbent: Recipe, candidate: Recipe, numerics: str) -> Gate:
        """The scripted word of the newest change."""
        self.log.append(("gate", candidate.names))
        self.seconds += self.gating
        new = [change for change in candidate.changes if change not in incumbent.changes]
        words = [self._by_name[change.name].gate for change in new if change.name in self._by_name]
        worst = next((word for word in words if word != "passed"), "passed")
        reason = "" if worst == "passed" else "gradient_norm is 4.00 times that of the script"
        return Gate(word=worst, numerics=numerics, reason=reason, steps=3)  # type: ignore[arg-type]

    def _fails(self, recipe: Recipe) -> None:
        for name in recipe.names:
            knob = self._by_name.get(name)
            if knob is not None and knob.fails:
                raise TrialFailed(knob.fails, f"{name} does not run here")


WORKERS = {
    1: {"data": 1.02},
    2: {"data": 0.52},
    4: {"data": 0.28},
    6: {"data": 0.20, "other": 1.02},
    8: {"data": 0.19, "other": 1.3},
    12: {"data": 0.24, "other": 1.6},
}
BOTH = ("forward", "backward")
USELESS = ("persistent_workers", "set_to_none", "gc_freeze", "allocator")


def landscape(seed: int = 0, *, noise: Noise | None = None) -> ScriptedEvaluator:
    """Fourteen knobs as the article's script has them; the best recipe is 5.0 times as fast.

    The step is the longer one of loading and computing. Half of the knobs help, some of them only once
    others are on; two exclude each other; one makes things worse; four do nothing.
    """
    knobs = (
        Knob(
            name="num_workers",
            levels=WORKERS,
            start_at=4,
            claims=("data",),
            reach=1.0,
            gives=frozenset({"workers"}),
        ),
        Knob(name="uint8", effect={"transfer": 0.4, "data": 0.85}, numerics="reassociated"),
        Knob(name="pin_memory", effect={"transfer": 0.6}, gives=frozenset({"pinned"})),
        Knob(name="prefetch", effect={"data": 0.93}, needs=frozenset({"workers"}), reach=0.2),
        Knob(name="channels_last", effect=dict.fromkeys(BOTH, 0.92), numerics="reassociated"),
        Knob(
            name="bf16",
            effect=dict.fromkeys(BOTH, 0.5),
            numerics="precision",
            gives=frozenset({"autocast"}),
        ),
        Knob(
            name="fp16",
            effect=dict.fromkeys(BOTH, 0.56) | {"optimizer": 1.2},
            numerics="precision",
            gives=frozenset({"autocast"}),
        ),
        Knob(name="compile", effect=dict.fromkeys(BOTH, 0.8), numerics="reassociated", start=40.0),
        Knob(name="fused", effect={"optimizer": 0.35}, numerics="reassociated"),
        Knob(name="threads", effect={"data": 1.1, "forward": 1.08}, numerics="reassociated"),
        *(Knob(name=name, claims=SHARES, reach=0.1, prior=0.2) for name in USELESS),
    )
    parts = {"data": 82e-3, "transfer": 5.5e-3, "forward": 13.75e-3, "backward": 25e-3}
    return ScriptedEvaluator(
        {**parts, "optimizer": 3.5e-3, "other": 0.5e-3},
        knobs,
        seed,
        noise or Noise(),
        together=((frozenset({"channels_last", "bf16"}), "backward", 0.9),),
    )


def null_world(seed: int = 0, *, knobs: int = 14, noise: Noise | None = None) -> ScriptedEvaluator:
    """Knobs that promise much and do nothing."""
    step = {"data": 30e-3, "forward": 25e-3, "backward": 40e-3, "optimizer": 5e-3}
    offered = tuple(Knob(name=f"knob{number:02}", claims=SHARES) for number in range(knobs))
    return ScriptedEvaluator(step, offered, seed, noise or Noise())
