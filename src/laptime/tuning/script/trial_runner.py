"""Starts trials: processes that run the user's script with a recipe, under hooks that time its steps.

A trial is timed alone or beside another one, in fresh processes; what all of them cost is added up."""

import itertools
import math
import random
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from laptime.experiment.turns import FEWEST_ROUNDS, HURRIED, Turns
from laptime.launch.script import Program
from laptime.tuning import optimization
from laptime.tuning.optimization import Recipe
from laptime.tuning.script import switches
from laptime.tuning.script import trial_process as trials
from laptime.tuning.script.trial_process import NotPrepared, PreparedInterpreter, RunningTrial
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.time_accounting import TrialAccounting
from laptime.tuning.trial.messages import Block, TrialPlan, TrialResult

RESERVED_MEMORY = 0.1  # share of the memory that was free when the session began which no trial may take
LEAST_START = 0.2
"""Share of a fresh interpreter's seconds to its first step that a fork is expected to take at least."""
START = 10.0  # seconds that a process is expected to take to its first step before one was started
BLOCK = 0.6
"""Seconds that a block of timed steps should take; slow steps make longer ones, quick ones stay countable."""
MOST_STEPS = 50
SLOW_STEP = 1.0
"""Seconds of a step from which trials settle one step less and blocks are as short as they can be."""
RESETTLE = 1
"""Steps that do not count after a switch of arms: what the other arm freed or laid out is allocated again."""
SHORTEST = 1.0  # seconds that a race may take whose time is up: it ends where it can
SETTLED = 4  # steps before those that count, where the gain is measured; of slow steps as in a race
NEEDS = {"memory": "it needs more memory than its limit", "recompiles": "it compiles in every step"}
"""Why a trial gave nothing that has ended so."""


def plan_settle(step: float, usual: int = 3) -> int:
    """Steps of a process that do not count, if one takes `step` seconds."""
    return 2 if step > SLOW_STEP else usual


def plan_resettle(step: float) -> int:
    """Steps after a turn begins that do not count: caches are warm again within a part of a slow one."""
    return 0 if step > SLOW_STEP else RESETTLE


def fewest_rounds(step: float) -> int:
    """Blocks of a process where the gain is measured, at least, if a step takes `step` seconds."""
    return HURRIED if step > SLOW_STEP else FEWEST_ROUNDS


def block_steps(step: float) -> int:
    """Timed steps in a block, if one takes `step` seconds."""
    return max(1, min(MOST_STEPS, round(BLOCK / step))) if step > 0 else 3


@dataclass(frozen=True)
class TimedTrial:
    """One fresh process: its blocks of timed steps, and its own account."""

    blocks: list[Block]
    result: TrialResult

    @property
    def seconds(self) -> list[float]:
        """The seconds of all timed steps."""
        return [seconds for block in self.blocks for seconds in block.seconds]

    @property
    def per_sample(self) -> float:
        """Seconds per sample, median over blocks."""
        return median(per_sample(block) for block in self.blocks)

    @property
    def losses(self) -> list[float]:
        """The losses of all timed steps."""
        return [loss for block in self.blocks for loss in block.losses]


@dataclass(frozen=True)
class TrialPair:
    """Two fresh processes with the same seed. `turns`: None if they ran one after the other."""

    baseline: TimedTrial
    final: TimedTrial
    turns: Turns | None = None

    @property
    def ratio(self) -> float:
        """Time per sample, final over baseline."""
        return self.final.per_sample / self.baseline.per_sample

    @property
    def memory(self) -> float | None:
        """Peak, final over baseline; None if one is unknown."""
        baseline, final = self.baseline.result.peak, self.final.result.peak
        return final / baseline if baseline and final else None


def per_sample(block: Block) -> float:
    """Seconds per sample over the whole block, without compiling.

    Not the median of its steps: with prefetching workers steps come in bursts, and a median would hide the
    wait for data. Compiling is paid once, not in every block."""
    samples = sum(block.samples) or len(block.seconds)
    least = len(block.seconds) * min(block.seconds)
    return max(sum(block.seconds) - block.compiling, least) / samples


class TrialRunner:
    """Starts trials of one script.

    Attributes:
        program: the script. folder: of the session. variables: of every process.
        accounting: what the trials cost.
        step: seconds of a step of the script as it is, which decides the steps of a trial; 0 before a
            diagnosis.
        memory: bytes that a trial may use.
        newest: account of the last trial that imported torch: device, versions, ranks.
        race_until: seconds of the session after which no race may run on, whatever it waits for.
        ends: seconds of the session after which no trial may run on: its budget.
        mended, needs_mending: files in place of the user's, by path, and names of the changes that need them.
    """

    def __init__(
        self,
        program: Program,
        folder: Path,
        *,
        timeout: float = 600.0,
        steps: int = 0,
        max_memory: int | None = None,
        step_by: str = "",
    ) -> None:
        self.program, self.folder = program, folder
        self.accounting = TrialAccounting()
        self.step = 0.0
        self.newest = TrialResult()
        self.timeout, self._steps, self._step_by = timeout, steps, step_by
        self.race_until = self.ends = math.inf
        self.mended: dict[str, str] = {}
        self.needs_mending: set[str] = set()
        self.memory = max_memory or int(psutil.virtual_memory().available * (1 - RESERVED_MEMORY))
        self.random = random.Random(0)  # noqa: S311, an order of trials
        self._numbers = itertools.count()
        self._began = time.monotonic()
        # What is compiled once comes out of a cache that goes with the session.
        self._prepared: PreparedInterpreter | None = None
        self._forks = sys.platform == "linux"
        self.variables = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}

    def elapsed(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._began

    def obstacle(self, candidate: Candidate) -> str:
        """Say why no trial can apply a candidate, "" if one can."""
        return ""

    def block_steps(self, step: float) -> int:
        """Timed steps in a block, if one takes `step` seconds."""
        return self._steps or block_steps(step)

    # One trial

    def start(self, recipe: Recipe, **settings: Any) -> AbstractContextManager[RunningTrial]:
        """A trial of a recipe; `settings` are fields of its `TrialPlan`."""
        return self.run(self.plan(recipe, **settings))

    def plan(self, recipe: Recipe, **settings: Any) -> TrialPlan:
        """The plan of the next trial."""
        folder = self.folder / f"trial-{next(self._numbers)}"
        names = {each["name"] for part in (recipe.to_json(), *settings.get("arms", ())) for each in part}
        mended = self.mended if names & self.needs_mending else {}
        words = [word for change in recipe for word in change.arguments]
        set_in_files = switches.set_in_files(words, folder.with_name(f"{folder.name}-set"))
        settings["sources"] = {**mended, **set_in_files, **settings.get("sources", {})}
        return TrialPlan(
            folder=str(folder),
            base=recipe.to_json(),
            step_by=self._step_by,
            scratch=str(folder / "scratch"),  # each trial begins with what the user has
            **{"settle": plan_settle(self.step), "resettle": RESETTLE, "memory": self.memory, **settings},
        )

    @contextmanager
    def run(self, plan: TrialPlan) -> Iterator[RunningTrial]:
        """The trial of a plan."""
        self.accounting.trials += 1
        start = partial(
            trials.start,
            self.program.words,
            python=self.program.python,
            plan=plan,
            timeout=self.limit(plan),
            variables=self.variables,
        )
        with ExitStack() as stack:
            if plan.scratch:  # checkpoints of dozens of trials would fill the disk
                stack.callback(shutil.rmtree, plan.scratch, ignore_errors=True)
            running = None
            if self._may_fork(plan):
                try:
                    running = stack.enter_context(start(prepared=self._interpreter()))
                except NotPrepared:
                    self._forks = False
            yield running or stack.enter_context(start())

    def limit(self, plan: TrialPlan) -> float:
        """Seconds that a trial of this plan may take."""
        until = min(self.race_until, self.ends) if plan.mode == "race" else self.ends
        return min(self.timeout, max(SHORTEST, until - self.elapsed()))

    def prepare(self) -> None:
        """Import what forked trials need, if there will be any: no race should pay for it."""
        if self._may_fork(TrialPlan(folder="")):
            began = time.monotonic()
            try:
                self._interpreter().get_ready()
            except NotPrepared:
                self._forks = False
            else:
                # Until a fork has shown it: what a fresh one takes, without what is imported already.
                first, imports = self.accounting.first_step or START, time.monotonic() - began
                self.accounting.forked_step = max(LEAST_START * first, first - imports)

    def _may_fork(self, plan: TrialPlan) -> bool:
        """Whether a fork of a prepared interpreter is what a fresh one would be: decision 0020."""
        changes = [change["name"] for part in (plan.base, *plan.arms) for change in part]
        return (
            self._forks
            and not plan.fresh
            and self.newest.torch
            and self.newest.world <= 1
            and not self.newest.variables
            and not any(optimization.load(name).read_at_start for name in changes)
        )

    def _interpreter(self) -> PreparedInterpreter:
        if self._prepared is None:
            modules, python = self.newest.imported, self.program.python
            self._prepared = trials.prepare(
                self.folder, python=python, modules=modules, variables=self.variables
            )
        return self._prepared

    def close(self) -> None:
        """End the prepared interpreter."""
        if self._prepared is not None:
            self._prepared.close()
        self._prepared, self._forks = None, False

    def finish(self, running: RunningTrial) -> TrialResult:
        """Stop a trial where it still runs, and take its account."""
        began = self.elapsed()
        result = running.finish()
        self.accounting.ending = self.elapsed() - began
        self.accounting.add_trial(result, is_forked=running.is_forked)
        if result.torch:
            self.newest = result
        return result

    def failure(self, result: TrialResult, running: RunningTrial) -> TrialFailed:
        """Return why a trial gave nothing."""
        if running.hung and self.elapsed() >= self.ends:
            return TrialFailed("budget", "budget: the session's time was up before it had ended")
        if running.hung and self.elapsed() >= self.race_until:
            return TrialFailed("budget", "budget: the time for races was up before a round of it had ended")
        if running.hung:
            return TrialFailed("hung", f"it did not end within {self.timeout:g} s")
        if running.child_trains:
            return TrialFailed("children", "an optimizer stepped in a process that the script has started")
        if result.ended in NEEDS:
            return TrialFailed(result.ended, result.error or NEEDS[result.ended])
        if result.refused:
            reasons = "; ".join(f"{change['name']}: {change['why']}" for change in result.refused)
            return TrialFailed("refused", reasons)
        if result.ended in ("raised", "died", "exited") and (result.error or result.status):
            kind = "memory" if "OutOfMemory" in result.error else "crashed"
            return TrialFailed(kind, trials.crash(result) or running.last_words())
        if not result.source:
            return TrialFailed("no_steps", "it ended without a step of training")
        return TrialFailed("no_steps", f"it ended after {result.settled} steps, before enough were timed")

    # Timed trials in fresh processes

    def time_trial(
        self,
        recipe: Recipe,
        seed: int,
        *,
        sources: dict[str, str] | None = None,
        rounds: int = 1,
        fresh: bool = True,
    ) -> TimedTrial:
        """Time a recipe in a process of its own. sources: files in place of the user's. rounds: blocks of
        timed steps; of one, at least two steps. fresh: in an interpreter of its own, too.
        Raises TrialFailed: it does not run."""
        step, is_quick = self.step or 1.0, rounds == 1
        started = self.start(
            recipe,
            fresh=fresh,
            steps=max(2 if is_quick else 1, self.block_steps(step)),
            rounds=rounds,
            seed=seed,
            sources=sources or {},
            # The first steps of a process are slower (allocators adapt, caches fill): the gain is not theirs.
            settle=plan_settle(step) if is_quick else plan_settle(step, SETTLED),
        )
        with self.accounting.spent_on("race"), started as running:
            blocks = list(running.blocks())
            result = self.finish(running)
        if not blocks:
            raise self.failure(result, running)
        return TimedTrial(blocks, result)

    def pair(self, baseline: Recipe, final: Recipe, seed: int, **settings: Any) -> TrialPair:
        """Time two recipes in processes of their own, one after the other in random order. settings: of
        `timed`; `sources` are those of the final side. Raises TrialFailed: one of them does not run."""
        made: dict[int, TimedTrial] = {}
        for at in self.random.sample((0, 1), 2):
            own = settings if at else settings | {"sources": None}
            made[at] = self.time_trial(final if at else baseline, seed, **own)
        return TrialPair(made[0], made[1])
