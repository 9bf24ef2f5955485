"""How often does a gate of `laptime tune SCRIPT` refuse a sound change, and does it accept a harmful one?

Training problems of many kinds, sound changes of the catalogue and the planted harms of the honesty tests,
fresh weights and data for each seed. Captures run in this process; what they are judged by is the gate's own
code. At most 2 % of sound changes may be refused or undecided, and no harm accepted. A harm that changes
nothing in a problem, bit for bit (no clipping is lost where nothing is clipped), is not counted there. With
--json FILE every answer is kept, and a second start goes on behind the last one.
"""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from argparse import Namespace
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

import _gate_problems as problems
from _harness import Figures, option, run, table
from fixtures import numerics_captures
from laptime.records.tuning import Gate
from laptime.tuning import optimization
from laptime.tuning.gates.verdict import judge
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.trial_evaluator import GateRunner
from laptime.tuning.trial.messages import CapturePlan, NumericsComparison

SOUND = (
    "bf16_autocast",
    "channels_last",
    "fused_optimizer",
    "foreach_optimizer",
    "set_to_none",
    "num_workers",
    "threads",
)
"""Without compile, of which one takes as long as all of these; `--changes compile` asks for it."""
OPTIONS: dict[str, dict[str, Any]] = {
    "num_workers": {"value": 2},
    "threads": {"threads": 2},
    "uint8_transfer": {"mean": list(problems.Photos.MEAN), "std": list(problems.Photos.STD)},
}
PLANTED = Path(__file__).resolve().parent.parent / "tests" / "honesty" / "harm"
OF_LOADERS = {"dropped_batch", "frozen_augmentation", "shared_augmentation", "lost_normalisation"}
"""Harms to what a loader gives: the honesty tests ask for them, with data that is augmented."""
LIMIT = 0.02
"""Share of sound changes that may be refused or undecided."""
ERROR = 0.05
"""Chance that a rate is above the bound that is shown."""
NEITHER = {
    ("convnext-timm", "bf16_autocast"): "LayerNorm's backward adds up rows in bfloat16 on this CPU",
}
"""Changes that are not sound for a problem, by measurement (`layer_norm_bf16.py`), and no planted harm:
of this size they lie at the limit. They are shown, and not counted."""
NO_EFFECT = "no effect"
OF_BATCHNORM = {"micro_batches"}
"""Halves of a batch are the same batch where nothing is normalised over it."""


class InProcess(GateRunner):
    """Captures a function in this process in place of a script in its own."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        runner: Any = SimpleNamespace(folder=folder)
        super().__init__(runner, LoopProfile())
        self._main, self._folder = problems.problem(name, seed), folder
        self._newest, self._numbers = NumericsComparison(), itertools.count()

    def _run(self, recipe: Recipe, capture: CapturePlan) -> NumericsComparison:
        # A folder of its own: messages of all that ran in one would be read with each.
        folder = self._folder / f"trial-{next(self._numbers)}"
        run = numerics_captures.capture(self._main, folder, recipe.to_json(), **asdict(capture))
        if recipe.changes and capture.samples is None:
            self._newest = run
        return run

    def word(self, name: str, *, harm: bool) -> str:
        """Of one change: the word of its gate, with the reason where it has not passed."""
        recipe = Recipe.from_json([{"name": name, "options": OPTIONS.get(name, {})}])
        try:
            gate = self.gate(recipe, optimization.load(name).numerics)
        except Exception as error:  # a change that breaks the loop is no change: a session refuses it, too
            return f"cannot: {type(error).__name__}: {error}" if not harm else "cannot"
        if harm and gate.word == "passed" and self._has_no_effect(recipe):
            return NO_EFFECT
        return _text(gate)

    def _has_no_effect(self, recipe: Recipe) -> bool:
        """Whether the steps are bit for bit the script's own, or the harm is none to this model."""
        has_norm = any("running_mean" in row.name for row in self._newest.tensors)
        if not has_norm and Path(recipe.names[0]).stem in OF_BATCHNORM:
            return True
        return judge(["exact"], self._newest, again=self._repeated).word == "passed"


def _text(gate: Gate) -> str:
    if any(check.name == "applied" for check in gate.checks):
        return "cannot"
    return gate.word if gate.word == "passed" else f"{gate.word}: {gate.reason}"


def ask(name: str, seed: int, changes: list[str], row: dict[str, Any]) -> Generator[str]:
    """The gates of one problem and seed whose words the row has not yet, sound and harmful, one by one."""
    with tempfile.TemporaryDirectory() as folder:
        runner = InProcess(Path(folder), name, seed)
        for change in missing(row["sound"], changes):
            row["sound"][change] = runner.word(change, harm=False)
            yield change
        for harm in missing(row["harm"], list(harms())):
            row["harm"][harm] = runner.word(str(harms()[harm]), harm=True)
            yield harm


def missing(words: dict[str, str], names: list[str]) -> list[str]:
    """The names that have no word yet."""
    return [name for name in names if name not in words]


def harms() -> dict[str, Path]:
    """The planted harms that are asked of steps, by name."""
    return {path.stem: path for path in sorted(PLANTED.glob("*.py")) if path.stem not in OF_LOADERS}


def summary(rows: dict[str, Any]) -> tuple[int, int, int, int]:
    """Sound changes, how many of them were refused or undecided, harms, how many of them were accepted."""
    sound = [
        word
        for key, row in rows.items()
        for name, word in row["sound"].items()
        if word != "cannot" and not note(key, name)
    ]
    harm = [
        word for row in rows.values() for word in row["harm"].values() if word not in ("cannot", NO_EFFECT)
    ]
    return (
        len(sound),
        sum(word != "passed" for word in sound),
        len(harm),
        sum(word == "passed" for word in harm),
    )


def note(key: str, change: str) -> str:
    """Why a change of the problem of `problem/seed` is not counted; "" where it is."""
    return NEITHER.get((key.rpartition("/")[0], change), "")


def show(rows: dict[str, Any]) -> None:
    """The table by problem, and every word that should not be."""
    by_problem: dict[str, dict[str, Any]] = {}
    for key, row in rows.items():
        by_problem.setdefault(key.rpartition("/")[0], {})[key] = row
    lines = []
    for name, seeds in by_problem.items():
        sound, refused, harm, accepted = summary(seeds)
        lines.append((name, str(len(seeds)), f"{refused} of {sound}", f"{accepted} of {harm}"))
    table(("problem", "seeds", "sound: refused or undecided", "harmful: accepted"), lines)
    for key, row in rows.items():
        wrong = {name: word for name, word in row["sound"].items() if word not in ("passed", "cannot")}
        wrong |= {name: word for name, word in row["harm"].items() if word == "passed"}
        for name, word in wrong.items():
            why = note(key, name)
            print(f"\n{key}, {name}: {word}{f' (not counted: {why})' if why else ''}")
    sound, refused, harm, accepted = summary(rows)
    print(
        f"\nAll: {refused} of {sound} sound changes refused or undecided, {accepted} of {harm} harms accepted"
    )
    print(f"With 95 %: fewer than {bound(refused, sound):.1%}, and than {bound(accepted, harm):.1%}")


def bound(events: int, of: int) -> float:
    """The one-sided 95 % upper bound of a rate, after Clopper and Pearson (1934)."""

    def at_most(rate: float) -> float:
        return sum(math.comb(of, k) * rate**k * (1 - rate) ** (of - k) for k in range(events + 1))

    low, high = events / max(of, 1), 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(middle) > ERROR else (low, middle)
    return high


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when too many sound changes were refused, or a harm was accepted."""
    torch.set_num_threads(1)
    began = time.monotonic()
    data["limit"] = LIMIT
    rows = data.again("rows", {})
    wanted = [f"{name}/{seed}" for seed in range(asked.seeds) for name in asked.problems]
    for key in wanted:
        name, _, seed = key.rpartition("/")
        row = rows.get(key, {"sound": {}, "harm": {}})
        answers = ask(name, int(seed), [*asked.changes, *problems.changes(name)], row)
        while time.monotonic() - began < 60 * asked.minutes and next(answers, None) is not None:
            rows[key] = row
            data.keep()
        answers.close()
    show(rows)
    none: dict[str, Any] = {"sound": {}, "harm": {}}
    left = [
        key
        for key in wanted
        if missing(rows.get(key, none)["sound"], asked.changes)
        + missing(rows.get(key, none)["harm"], list(harms()))
    ]
    if left:
        print(
            f"{len(left)} of {len(wanted)} problems x seeds were not asked of everything: the time was over"
        )
    sound, refused, _, accepted = summary(rows)
    return int(refused > LIMIT * sound or accepted > 0)


if __name__ == "__main__":
    run(
        main,
        "Gates of scripts",
        option("problems", nargs="*", default=problems.EVERY, metavar="PROBLEM"),
        option("--seeds", type=int, default=10),
        option("--changes", nargs="+", default=list(SOUND), metavar="CHANGE"),
        option("--minutes", type=float, default=float("inf"), help="ask no more after them"),
    )
