"""How far from the best setting of an exhaustive grid does `laptime tune` end on the example?

Every combination of some knobs runs in fresh processes, in rounds of random order, after a session that may
use the same knobs; then the regret: what `laptime tune` kept over the best of the grid, as time per sample,
minus 1. Asked for: within 4 %.

The best of many noisy figures is too good. So in each round the best is the one of the OTHER rounds, and what
the tuner kept is compared with it in this one; the interval is over rounds.

    python benchmarks/tune_grid.py --knobs channels_last,bf16_autocast,allocator,threads=1:2 -- --images 2000
    python benchmarks/tune_grid.py --knobs channels_last,huge_pages --batch 4 --rounds 4 --seconds 1
    python benchmarks/tune_grid.py --knobs ... --recipe resnet18.laptime.json      # of a session that is over
    python benchmarks/tune_grid.py --knobs ... --dry-run                           # how many, and how long
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from _harness import head, parser, table, write
from _regret import LIMIT, regret
from laptime.records.event import Progress
from laptime.tuning import optimization, recipe_file
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.script.request import TuneRequest, choice_of, program_of
from laptime.tuning.script.subject import tune
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.script.trial_runner import TrialRunner
from laptime.tuning.search.evaluator import TrialFailed

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "resnet18.py"
KNOBS = "channels_last,bf16_autocast,allocator,threads"


def axes(knobs: str, loop_profile: LoopProfile) -> list[list[Change | None]]:
    """What each knob may be: left alone first, then the options given, or those that it proposes itself."""
    found: list[list[Change | None]] = []
    for word in knobs.split(","):
        name, _, values = word.strip().partition("=")
        name = name.replace("-", "_")
        proposed = optimization.load(name).offer(loop_profile) or [{}]
        key = next(iter(proposed[0]), "value")
        if values:
            proposed = [{key: int(value)} for value in values.split(":")]
        found.append([None, *(Change(name, options) for options in proposed)])
    return found


def grid(ways: Sequence[Sequence[Change | None]]) -> list[Recipe]:
    """Every combination in which nothing conflicts; the script as it is comes first."""
    made = (
        Recipe(tuple(each for each in combined if each is not None)) for combined in itertools.product(*ways)
    )
    return [recipe for recipe in made if not _conflicts(recipe)]


def _conflicts(recipe: Recipe) -> bool:
    modules = {name: optimization.load(name) for name in recipe.names}
    given = {name: {name, *module.given_facts} for name, module in modules.items()}
    return any(
        modules[one].conflicts & given[other] for one, other in itertools.permutations(recipe.names, 2)
    )


def same(one: Recipe, other: Recipe) -> bool:
    """Whether two recipes are the same setting, in whatever order."""
    return sorted(map(str, one)) == sorted(map(str, other))


def measured(
    runner: TrialRunner, recipes: list[Recipe], *, rounds: int, seconds: float, seed: int = 0
) -> tuple[dict[int, list[float]], dict[int, str]]:
    """Seconds per sample by recipe, one a round; and why those that do not run do not."""
    rng = random.Random(seed)
    seen: dict[int, list[float]] = {at: [] for at in range(len(recipes))}
    failed: dict[int, str] = {}
    for number in range(rounds):
        order = [at for at in seen if at not in failed]
        rng.shuffle(order)
        for done, at in enumerate(order):
            print(f"\rround {number + 1} of {rounds}, {done + 1} of {len(order)}  ", end="", file=sys.stderr)
            try:
                blocks = max(1, round(seconds / (runner.step or seconds)))
                seen[at].append(runner.time_trial(recipes[at], number, rounds=blocks).per_sample)
            except TrialFailed as failure:
                failed[at] = f"{failure.kind}: {failure.why}"
    print(file=sys.stderr)
    return {at: values for at, values in seen.items() if at not in failed}, failed


def show(recipes: list[Recipe], seen: dict[int, list[float]], failed: dict[int, str], kept: int) -> None:
    """The grid, the best first."""
    order = sorted(seen, key=lambda at: median(seen[at]))
    best = median(seen[order[0]])
    rows = [
        (
            str(recipes[at]) + (" **(kept)**" if at == kept else ""),
            f"{1 / median(seen[at]):,.1f}",
            f"{median(seen[at]) / best - 1:+.1%}",
            f"{median(seen[0]) / median(seen[at]):.2f}x" if 0 in seen else "-",
        )
        for at in order
    ]
    table(("setting", "samples/s", "time over the best", "speedup"), rows)
    for at, why in failed.items():
        print(f"\n{recipes[at]} does not run: {why}")


def tuned(script: Path, arguments: list[str], knobs: str, budget: float, work: Path) -> Recipe:
    """What a session keeps that may use these knobs only."""
    names = [word.partition("=")[0].strip() for word in knobs.split(",")]
    request = TuneRequest(
        program=str(script),
        arguments=arguments,
        budget=budget,
        only=names,
        patch=work / "x.laptime.patch",
        save=False,
    )
    print(f"laptime tune, {budget:.0f} s at most", file=sys.stderr)
    run = tune(
        request, lambda event: print(event.text, file=sys.stderr) if isinstance(event, Progress) else None
    )
    return recipe_file.recipe_of(run.tuning) if run.tuning else Recipe()


def arguments_of(asked: Any) -> list[str]:
    """Of the script: what stands behind `--`, and the batch."""
    given = [word for word in asked.arguments if word != "--"]
    return [*given, "--batch", str(asked.batch)] if asked.batch else given


def main() -> int:
    """Tune, run the grid, tell the regret; 1 when it is certainly above the limit."""
    asked = options().parse_args()
    if not asked.knobs:
        print(f"skipped: it takes an hour; say which knobs: --knobs {KNOBS}")
        return 0
    script, arguments = asked.script.resolve(), arguments_of(asked)
    request = TuneRequest(program=str(script), arguments=arguments)
    with tempfile.TemporaryDirectory(prefix="laptime-grid-", ignore_cleanup_errors=True) as folder:
        runner = TrialRunner(program_of(request), Path(folder))
        evaluator = TrialEvaluator(runner, choice_of(request))
        loop_profile = evaluator.diagnose(Recipe())
        recipes = grid(axes(asked.knobs, loop_profile))
        each = evaluator.costs(loop_profile).start + asked.seconds + 4 * loop_profile.step
        minutes = len(recipes) * asked.rounds * each / 60
        print(f"{len(recipes)} settings, {asked.rounds} rounds, about {minutes:.0f} min", file=sys.stderr)
        if asked.dry_run:
            print("\n".join(map(str, recipes)))
            return 0
        if asked.recipe:
            kept = recipe_file.recipe_of(recipe_file.read(asked.recipe))
        else:
            kept = tuned(script, arguments, asked.knobs, asked.budget, Path(folder))
        at = next((at for at, recipe in enumerate(recipes) if same(recipe, kept)), len(recipes))
        recipes += [kept] * (at == len(recipes))
        data = head(f"Grid of {len(recipes)} settings of {script.name}, against what laptime tune kept")
        seen, failed = measured(runner, recipes, rounds=asked.rounds, seconds=asked.seconds)
    return told(asked, data, recipes, seen, failed, at)


def told(
    asked: Any,
    data: dict[str, Any],
    recipes: list[Recipe],
    seen: dict[int, list[float]],
    failed: dict[int, str],
    kept: int,
) -> int:
    """Print and write it; the exit status."""
    show(recipes, seen, failed, kept)
    if kept in failed:
        return 1
    found = regret(seen, kept)
    print(f"\nRegret of what was kept ({recipes[kept]}): {found}; asked for: at most {LIMIT:.0%}")
    rows = [{"recipe": recipes[at].to_json(), "per_sample": values} for at, values in seen.items()]
    figures = {"kept": recipes[kept].to_json(), "regret": found._asdict(), "grid": rows}
    write(asked.json, {**data, **figures, "failed": {str(recipes[at]): why for at, why in failed.items()}})
    return 1 if found.low > LIMIT else 0


def options() -> argparse.ArgumentParser:
    """Of the command line."""
    made = parser(__doc__ or "")
    made.add_argument("--script", type=Path, default=EXAMPLE)
    made.add_argument("--knobs", default="", help="NAME, or NAME=1:2:4 for its values; with commas")
    made.add_argument("--batch", type=int, default=0, help="given to the script as --batch")
    made.add_argument("--rounds", type=int, default=6)
    made.add_argument("--seconds", type=float, default=4.0, help="of timed steps in each process")
    made.add_argument("--budget", type=float, default=600.0, help="seconds of the session of laptime tune")
    made.add_argument("--recipe", type=Path, help="what an earlier session kept; no new one")
    made.add_argument("--dry-run", action="store_true", help="list the settings, and how long they take")
    made.add_argument("arguments", nargs="*", help="of the script, behind --")
    return made


if __name__ == "__main__":
    sys.exit(main())
