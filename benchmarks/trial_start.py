"""What does a race cost beyond its own steps, with trials in fresh interpreters and with forked ones?

Live races (one process, four rounds of two arms) of a script, in turns: every trial in an interpreter of its
own, as before decision 0020, and forked from a prepared one. Seconds beyond are those of the whole race less
those of the steps that it made, settling and switching arms included. The prepared interpreter's own import
is paid once a session, and shown apart.

With --pairs: all seconds of six rounds of a change that needs a process of its own (no loader workers), both
sides alive in turns, and in two new processes a round, one after the other.
"""

from __future__ import annotations

import sys
import tempfile
import time
from argparse import REMAINDER, Namespace
from pathlib import Path

from _harness import Figures, option, run, shown, table
from laptime.launch.script import Program
from laptime.records.run import Subject
from laptime.tuning.candidates import Choice
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.script.trial_runner import RESETTLE, TrialRunner, plan_settle

SCRIPT = Path(__file__).resolve().parent.parent / "examples" / "wild" / "nanogpt.py"
ROUNDS = 4


def race(runner: TrialRunner, *, fresh: bool) -> float:
    """Seconds of a race beyond its own steps."""
    began = time.monotonic()
    steps = runner.block_steps(runner.step)
    started = runner.start(
        Recipe(), fresh=fresh, arms=[[], []], steps=steps, rounds=ROUNDS, seconds=60.0, order=1
    )
    with started as running:
        blocks = list(running.blocks())
        runner.finish(running)
    taken = time.monotonic() - began
    seconds = [each for block in blocks for each in block.seconds]
    others = plan_settle(runner.step) + RESETTLE * len(blocks)
    return taken - sum(seconds) - others * sum(seconds) / len(seconds)


def pairs(runner: TrialRunner, *, apart: bool) -> float:
    """Seconds of six rounds of a race whose sides are processes."""
    evaluator = TrialEvaluator(runner, Choice())
    evaluator._runs_apart = apart
    began = time.monotonic()
    rounds = evaluator.race(Recipe(), Recipe.from_json([{"name": "num_workers", "options": {"value": 0}}]))
    for _ in range(6):
        next(rounds)
    return time.monotonic() - began


def main(asked: Namespace, data: Figures) -> int:
    """Print the table."""
    words = asked.script or [str(SCRIPT), "--gradient_accumulation_steps", "1"]
    program = Program(words, Subject(target=words[0], source="file"), sys.executable)
    kinds = ("in turns", "apart") if asked.pairs else ("fresh", "forked")
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        runner = TrialRunner(program, Path(folder))
        trial = runner.time_trial(Recipe(), 0)
        runner.step = sum(trial.seconds) / len(trial.seconds)
        began = time.monotonic()
        race(runner, fresh=False)
        preparing = time.monotonic() - began
        for _ in range(asked.races):
            for kind, values in taken.items():
                one = (
                    pairs(runner, apart=kind == "apart")
                    if asked.pairs
                    else race(runner, fresh=kind == "fresh")
                )
                values.append(one)
        runner.close()
    print(f"A step takes {1e3 * runner.step:.0f} ms; the first forked race {preparing:.1f} s\n")
    table(
        ("trials", "seconds" if asked.pairs else "seconds beyond"),
        [(kind, shown(each, factor=1, unit="s")) for kind, each in taken.items()],
    )
    data |= {"step": runner.step, "preparing": preparing, "seconds": taken}
    return 0


if __name__ == "__main__":
    run(
        main,
        "Seconds of a race beyond its own steps",
        option("script", nargs=REMAINDER, help="and its arguments; else nanogpt.py"),
        option("--pairs", action="store_true", help="races whose sides are processes"),
        option("--races", type=int, default=6, help="of each kind; six make an interval (6)"),
    )
