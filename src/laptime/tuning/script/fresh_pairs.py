"""A script's two sides in fresh processes, both alive: while one has its turn the other stands still.

A side waits at a step's border for its turn, and its whole process group is stopped until then, workers and
threads too: nobody prefetches in another's time. A quick step right after it goes on does not count. Sides
that do not fit into memory together, and those of several ranks, run one after the other."""

import os
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import cast

from laptime.experiment.pairs import Pair, Visited
from laptime.experiment.turns import Over, take_alone, take_turns
from laptime.process.program import Guard
from laptime.records.run import IN_MEMORY
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.trial_process import Running
from laptime.tuning.script.trial_runner import (
    SETTLED,
    TimedTrial,
    TrialPair,
    TrialRunner,
    fewest_rounds,
    per_sample,
    plan_resettle,
    plan_settle,
)
from laptime.tuning.trial.messages import GO, TURNS, Block, TrialResult

ENDLESS = 1_000_000  # rounds and seconds of a trial that whoever gives turns ends


class TrialSide:
    """A trial with turns. For its methods see `experiment.turns.Side`. sources: files in place of the user's.
    memory: bytes at most. guard: of what stands still. fresh: in an interpreter of its own, not in a fork."""

    def __init__(
        self,
        runner: TrialRunner,
        recipe: Recipe,
        seed: int,
        *,
        sources: dict[str, str] | None = None,
        memory: int | None = None,
        guard: Guard,
        fresh: bool = True,
    ) -> None:
        self._runner, self._guard, self._stack = runner, guard, ExitStack()
        step = runner.step or 1.0
        self._plan = runner.plan(
            recipe,
            fresh=fresh,
            turns=True,
            steps=runner.block_steps(step),
            rounds=ENDLESS,
            seconds=float(ENDLESS),
            seed=seed,
            sources=sources or {},
            settle=plan_settle(step, SETTLED) if fresh else plan_settle(step),
            resettle=plan_resettle(step),
            **({} if memory is None else {"memory": memory}),
        )
        self.timed = TimedTrial([], TrialResult())

    def start(self) -> None:
        folder = Path(self._plan.folder)
        folder.mkdir(parents=True, exist_ok=True)
        os.mkfifo(folder / TURNS)
        # Open for both: it can be written to before anybody reads, and ends for the reader when we do.
        self._turns = os.open(folder / TURNS, os.O_RDWR | os.O_CLOEXEC)
        self._stack.callback(os.close, self._turns)
        running = cast(Running, self._stack.enter_context(self._runner.run(self._plan)))
        self._running, self._blocks = running, running.blocks()
        self._guard.add(-running.process.pid)

    def warm(self) -> None:
        self._next()  # where its first step begins
        self._give_turn()

    def block(self) -> float:
        block = self._give_turn()
        self.timed.blocks.append(block)
        return per_sample(block)

    def _give_turn(self) -> Block:
        self._running.process.resume()
        os.write(self._turns, GO)
        return self._next()

    def _next(self) -> Block:
        """The next message that it waits for a turn; then it stands still.
        Raises Over: the script has ended. TrialFailed: it failed."""
        block = next(self._blocks, None)
        if block is None:
            result = self._runner.finish(self._running)
            if result.ended == "returned" and self.timed.blocks:
                raise Over
            raise self._runner.failure(result, self._running)
        self._guard.add(*self._running.process.pause())
        return block

    def finish(self) -> None:
        self._running.process.resume()
        os.write(self._turns, b"x")
        self.timed = TimedTrial(self.timed.blocks, self._runner.finish(self._running))

    def close(self) -> None:
        self._stack.close()


def why_apart(runner: TrialRunner) -> str:
    """Say why the sides of a pair run one after the other; "" if they can take turns."""
    if runner.program.subject.source == IN_MEMORY:
        return "the problem is in memory, once"
    world = runner.newest.world
    return f"{world} ranks wait for each other" if world > 1 else ""


def in_turns(
    runner: TrialRunner,
    final: Recipe,
    seed: int,
    *,
    sources: dict[str, str],
    until: float,
    fresh: bool = True,
) -> TrialPair:
    """The script as it is and the final set, both alive at once, each in a fresh process.
    seed: of both. sources: files in place of the user's, on the final side. until: second of the session at
    which the pair should be over. fresh: in interpreters of their own, not in forks.
    Raises TrialFailed: they do not run at once."""
    with closing(Guard()) as guard:
        begin = partial(TrialSide, runner, seed=seed, memory=runner.memory // 2, guard=guard, fresh=fresh)
        sides = begin(Recipe()), begin(final, sources=sources)
        turns = take_turns(sides, until=until, elapsed=runner.elapsed, seed=seed)
    return TrialPair(sides[0].timed, sides[1].timed, turns)


def alone(runner: TrialRunner, recipe: Recipe, seed: int, *, fresh: bool = True) -> TimedTrial:
    """A recipe alone; the steps that count are those of a pair in turns.
    Raises TrialFailed: it does not run."""
    with closing(Guard()) as guard:
        side = TrialSide(runner, recipe, seed, guard=guard, fresh=fresh)
        return take_alone(side, fewest_rounds(runner.step)).timed


def pair_of(made: TrialPair) -> Pair:
    """A pair of trials as one whose gain is measured."""
    return Pair(make_visited(made.baseline), make_visited(made.final), made.turns)


def make_visited(side: TimedTrial) -> Visited:
    """A trial as one side of it."""
    return Visited(side.per_sample, side.seconds, 1.0 / side.per_sample, side.result.peak)
