"""The `Evaluator` of a search, made of real processes: every recipe runs in the user's own script, under
trial hooks."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from laptime.launch import trial as trials
from laptime.launch.script import Program
from laptime.launch.trial import Running
from laptime.records.tuning import Gate
from laptime.tuning import optimization
from laptime.tuning.candidates import Choice, Costs, find_candidates
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import CandidateSet, Round, TrialFailed
from laptime.tuning.session.time_accounting import Ledger
from laptime.tuning.trial.messages import Block, TrialPlan, TrialResult

RESERVE = 0.1
"""Share of the memory that was free when the session began which no trial may take."""
BLOCK = 0.6
"""Seconds that a block of timed steps should take; slow steps make longer ones, quick ones stay countable."""
MOST_STEPS = 50
SLOW_STEP = 1.0
"""Seconds: from such a step on, trials settle one step, and blocks are as short as they can be."""
RESETTLE = 1
"""Steps that do not count after a switch of arms: what the other arm freed or laid out is taken anew."""
SETTLED = 4
"""Steps before those that count, where the gain is measured; of slow steps as in a race."""


def settled(step: float, usual: int = 3) -> int:
    """Steps of a process that do not count, of so many seconds each."""
    return 2 if step > SLOW_STEP else usual


class TrialRunner:
    """Runs recipes of one script. All methods of `search.world.Evaluator`, and those that measure.

    Attributes:
        trial: of the last finished process, for facts. loop_profile: of the script as it is, once diagnosed.
        known: diagnoses and gates by recipe, and what gates know of the script as it is.
        diagnosed: recipes with what was found under them, in order. variables: for every process.
    """

    def __init__(
        self,
        program: Program,
        choice: Choice,
        folder: Path,
        *,
        timeout: float = 600.0,
        steps: int = 0,
        max_memory: int | None = None,
        step_by: str = "",
        seed: int = 0,
    ) -> None:
        self.program, self.choice, self.folder = program, choice, folder
        self.ledger = Ledger()
        self.trial = TrialResult()
        self.loop_profile: LoopProfile | None = None
        self._timeout, self._steps, self._step_by = timeout, steps, step_by
        self._memory = max_memory or int(psutil.virtual_memory().available * (1 - RESERVE))
        self._random = random.Random(seed)  # noqa: S311, an order of trials
        self._numbers = itertools.count()
        self._began = time.monotonic()
        self.known: dict[str, Any] = {}
        self.diagnosed: list[tuple[Recipe, LoopProfile]] = []
        self._scratch = folder / "scratch"
        # What is compiled once comes out of a cache that goes with the session.
        self.variables = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}

    # Evaluator.

    def elapsed(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._began

    def diagnose(self, recipe: Recipe) -> LoopProfile:
        """One process that leaves parts of the step out, in turns.

        Raises:
            TrialFailed: the script does not run, or has no step.
        """
        key = f"situation {recipe}"
        if key in self.known:
            known: LoopProfile = self.known[key]
            return known
        began = self.elapsed()
        with self.ledger.spent("diagnose"), self._start(recipe, mode="diagnose", seconds=20.0) as running:
            running.wait()
            ended = self.ended(running)
            diagnosis = running.document(LoopProfile)
        if diagnosis is None:
            raise self.failure(ended, running)
        loop_profile = replace(diagnosis, seconds=self.elapsed() - began)
        if self.loop_profile is None:
            self.loop_profile = loop_profile
        self.known[key] = loop_profile
        self.diagnosed.append((recipe, loop_profile))
        return loop_profile

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        """The catalogue's answer."""
        return find_candidates(loop_profile, recipe, self.choice, self.costs(loop_profile))

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Iterator[Round]:
        """Inside one process where every difference can be flipped, else in alternating fresh ones."""
        if not fresh and self._is_live(incumbent, candidate):
            yield from self._live(incumbent, candidate)
            return
        for number in itertools.count():
            pair = self.pair(incumbent, candidate, number)
            self._compiled(incumbent, candidate, pair.final.ended.compile_seconds)
            yield Round(pair.ratio, memory=pair.memory, process=number)

    def gate(self, incumbent: Recipe, candidate: Recipe, numerics: str) -> Gate:
        """Against the script as it is, not against the incumbent: small deviations must not add up unseen."""
        from laptime.tuning.session.gating import gated

        key = f"gate {candidate}"
        if key not in self.known:
            with self.ledger.spent("gate"):
                self.known[key] = gated(self, candidate, numerics)
        found: Gate = self.known[key]
        return found

    # What searches and reports also need.

    def costs(self, loop_profile: LoopProfile) -> Costs:
        """What trials of this script cost."""
        start = self.ledger.first or 10.0
        block = self.steps_of(loop_profile.step) * loop_profile.step
        compiling = self.ledger.compiling
        return Costs(
            start=start,
            block=block,
            flip=RESETTLE * loop_profile.step,
            **({} if compiling is None else {"compiling": compiling}),
        )

    def steps_of(self, step: float) -> int:
        """Timed steps in a block."""
        if self._steps:
            return self._steps
        return max(1, min(MOST_STEPS, round(BLOCK / step))) if step > 0 else 3

    def pair(
        self,
        baseline: Recipe,
        final: Recipe,
        number: int,
        *,
        sources: dict[str, str] | None = None,
        seconds: float | None = None,
    ) -> Pair:
        """Both in fresh processes, in random order, with the same seed.

        Args:
            sources: files in place of the user's, for `final` only: its recipe is then the source's.

        Raises:
            TrialFailed: one of them does not run.
        """
        order = [False, True]
        self._random.shuffle(order)
        sides: dict[bool, Side] = {}
        for is_final in order:
            recipe = final if is_final else baseline
            sides[is_final] = self.side(
                recipe, number, sources=sources if is_final else None, seconds=seconds
            )
        return Pair(sides[False], sides[True])

    def side(
        self,
        recipe: Recipe,
        seed: int,
        *,
        sources: dict[str, str] | None = None,
        seconds: float | None = None,
    ) -> Side:
        """One fresh process: its timed steps.

        Raises:
            TrialFailed: it does not run.
        """
        step = self.loop_profile.step if self.loop_profile else 1.0
        steps = max(2, self.steps_of(step)) if seconds is None else max(2, min(500, round(seconds / step)))
        # The first steps of a process are slower (allocators adapt, caches fill): the gain is not theirs.
        settle = settled(step) if seconds is None else settled(step, SETTLED)
        with (
            self.ledger.spent("race"),
            self._start(
                recipe, steps=steps, rounds=1, seed=seed, sources=sources or {}, settle=settle
            ) as running,
        ):
            blocks = list(running.blocks())
            ended = self.ended(running)
        if not blocks:
            raise self.failure(ended, running)
        return Side(blocks, ended)

    def plan(self, recipe: Recipe, **given: Any) -> TrialPlan:
        """A plan of the next trial of this session."""
        step = self.loop_profile.step if self.loop_profile else 0.0
        settle = settled(step)
        asked: dict[str, Any] = {"settle": settle, "resettle": RESETTLE, **given}
        return TrialPlan(
            folder=str(self.folder / f"trial-{next(self._numbers)}"),
            base=recipe.to_json(),
            memory=self._memory,
            step_by=self._step_by,
            scratch=str(self._scratch),
            **asked,
        )

    @contextmanager
    def run(self, plan: TrialPlan) -> Iterator[Running]:
        """A trial by a plan of one's own."""
        self.ledger.trials += 1
        words, python = self.program.words, self.program.python
        with trials.start(
            words, python=python, plan=plan, timeout=self._timeout, variables=self.variables
        ) as running:
            yield running

    # Inside.

    @contextmanager
    def _start(self, recipe: Recipe, **given: Any) -> Iterator[Running]:
        with self.run(self.plan(recipe, **given)) as running:
            yield running

    def ended(self, running: Running) -> TrialResult:
        """The trial's own account, kept for the facts in it."""
        ended = running.finished()
        if ended.first is not None and not ended.compile_seconds:
            self.ledger.first = ended.first
        if ended.compile_seconds:
            self.ledger.compiling = max(self.ledger.compiling or 0.0, ended.compile_seconds)
            self.ledger.compile_seconds += ended.compile_seconds
        if ended.torch:
            self.trial = ended
        return ended

    def failure(self, ended: TrialResult, running: Running) -> TrialFailed:
        """Why a trial gave nothing."""
        if running.hung:
            return TrialFailed("hung", f"no end after {self._timeout:g} s")
        if ended.ended == "memory":
            return TrialFailed("memory", ended.error or "it wanted more memory than it may have")
        if ended.ended == "recompiles":
            return TrialFailed("recompiles", ended.error or "it compiles in every step")
        if ended.refused:
            told = "; ".join(f"{each['name']}: {each['why']}" for each in ended.refused)
            return TrialFailed("refused", told)
        if ended.ended in ("raised", "died", "exited") and (ended.error or ended.status):
            kind = "memory" if "OutOfMemory" in ended.error else "crashed"
            return TrialFailed(kind, ended.error or running.last_words())
        if not ended.source:
            return TrialFailed("no_steps", "it ended without a step of training")
        return TrialFailed("no_steps", f"it ended after {ended.settled} steps, before enough were timed")

    def _compiled(self, incumbent: Recipe, candidate: Recipe, seconds: float) -> None:
        """Book torch.compile's time under what was tried; the longest, for later trials find its cache."""
        for change in candidate:
            if change not in incumbent.changes and seconds:
                booked = self.ledger.compiled_by
                booked[str(change)] = max(seconds, booked.get(str(change), 0.0))

    def _is_live(self, incumbent: Recipe, candidate: Recipe) -> bool:
        if self.choice.goal == "memory":  # peaks are those of processes
            return False
        differing = set(incumbent.changes) ^ set(candidate.changes)
        toggles = [optimization.load(change.name).TOGGLE for change in differing]
        return self.trial.world <= 1 and all(toggle == "live" for toggle in toggles)

    def _live(self, incumbent: Recipe, candidate: Recipe) -> Iterator[Round]:
        """Arms in one process; a round is complete when both have run."""
        shared = Recipe(tuple(change for change in incumbent if change in candidate.changes))
        arms = [
            [change for change in recipe.to_json() if change not in shared.to_json()]
            for recipe in (incumbent, candidate)
        ]
        step = self.loop_profile.step if self.loop_profile else 1.0
        given = {"arms": arms, "steps": self.steps_of(step), "rounds": 60, "seconds": self._timeout}
        open_rounds: dict[int, dict[int, Block]] = {}
        yielded = 0
        with (
            self.ledger.spent("race"),
            self._start(shared, order=self._random.randrange(1 << 30), **given) as running,
        ):
            try:
                for block in running.blocks():
                    sides = open_rounds.setdefault(block.round, {})
                    sides[block.arm] = block
                    if len(sides) == 2:
                        yielded += 1
                        yield Round(per_sample(sides[1]) / per_sample(sides[0]))
            finally:
                ended = self.ended(running)
        refused = {each["name"] for each in ended.refused}
        if not yielded or refused & {change["name"] for change in arms[1]}:
            raise self.failure(ended, running)


@dataclass(frozen=True)
class Side:
    """One fresh process: its blocks, and how it ended."""

    blocks: list[Block]
    ended: TrialResult

    @property
    def seconds(self) -> list[float]:
        """Of all timed steps."""
        return [seconds for block in self.blocks for seconds in block.seconds]

    @property
    def per_sample(self) -> float:
        """Median step over samples of a step."""
        return median(per_sample(block) for block in self.blocks)

    @property
    def losses(self) -> list[float]:
        """Of all timed steps."""
        return [loss for block in self.blocks for loss in block.losses]


@dataclass(frozen=True)
class Pair:
    """Two fresh processes, side by side in time."""

    baseline: Side
    final: Side

    @property
    def ratio(self) -> float:
        """Time per sample, final over baseline."""
        return self.final.per_sample / self.baseline.per_sample

    @property
    def memory(self) -> float | None:
        """Peak, final over baseline."""
        a, b = self.baseline.ended.peak, self.final.ended.peak
        return b / a if a and b else None


def per_sample(block: Block) -> float:
    """Seconds over samples of the whole block: with prefetching workers steps come in bursts, and the median
    of them would hide the wait for data. Compiling is told apart: it is paid once, not in every block."""
    samples = sum(block.samples) or len(block.seconds)
    least = len(block.seconds) * min(block.seconds)
    return max(sum(block.seconds) - block.compiling, least) / samples
