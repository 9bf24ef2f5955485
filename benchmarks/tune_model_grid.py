"""How far from the best set of an exhaustive grid does `laptime tune MODEL` end?

Every set of model changes that go together is a point of the grid; only what is impossible is left out, and
what --skip names. Points whose outputs are not the model's are no points. Each is timed once in a process of
its own, in random order, then the better half again, until few are left. These, what a session keeps that may
use the same changes, and the model as it is run against each other, in rounds of random order in new
processes: the regret is what the session kept over the best of that race, as time per item, minus 1. Asked
for: at most 4 %; a session of at most 10 minutes, at most 40 % of it exporting and compiling.

    python benchmarks/tune_model_grid.py --model torchvision:squeezenet1_1 --keep grid --dry-run
    python benchmarks/tune_model_grid.py --model torchvision:squeezenet1_1 --keep grid --build
    python benchmarks/tune_model_grid.py --model torchvision:squeezenet1_1 --keep grid
        --skip inference_mode,allocator,huge_pages,flush_denormal     # no effect expected: far fewer points

The folder of --keep holds the points' folders and journal.jsonl, a line for each thing that was done; a run
that was stopped, or that --minutes ended, goes on. Building can be done beside other programs, the rest
cannot.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from _harness import Lines, head, parser, table, where, write
from _regret import LIMIT, regret
from laptime.kit.errors import LaptimeError
from laptime.records.event import Progress
from laptime.records.tuning import Tuning
from laptime.tuning.inference.changes import load
from laptime.tuning.inference.changes import names as every_name
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.folders import Arm
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.subject import tune_model
from laptime.tuning.inference.survey import instructions
from laptime.tuning.loop_profile import LoopProfile, unmet_need
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed

FINALISTS = 4
"""Points that are left for the race."""
LONGEST, BUILDING = 600.0, 0.40
"""Asked for: seconds of a session at most, and the share of them that exporting and compiling may take."""


def axes(loop_profile: LoopProfile, names: Iterable[str]) -> list[list[Change | None]]:
    """What each change may be: left alone first, then the options that it proposes."""
    proposed = ((name, load(name).propose(loop_profile)) for name in names)
    return [[None, *(Change(name, options) for options in found)] for name, found in proposed]


def points(loop_profile: LoopProfile, names: Iterable[str]) -> list[Recipe]:
    """Every set of changes that go together; the model as it is comes first."""
    combined = itertools.product(*axes(loop_profile, names))
    recipes = (Recipe(tuple(each for each in changes if each is not None)) for changes in combined)
    return [recipe for recipe in recipes if is_possible(recipe, loop_profile.facts)]


def is_possible(recipe: Recipe, facts: frozenset[str]) -> bool:
    """Whether each change has what it needs, and none shuts another out."""
    modules = {name: load(name) for name in recipe.names}
    for name, module in modules.items():
        others = frozenset().union(*(other.given_facts for key, other in modules.items() if key != name))
        if others & (module.given_facts | module.conflicts) or unmet_need(module.needs, facts | others):
            return False
    return True


def allowed(request: ModelRequest) -> list[str]:
    """Changes that a session of this request may try; those of the module before its precision."""
    names = [
        name
        for name in every_name()
        if name != "identity" and name not in request.skip and load(name).numerics in request.classes
    ]
    return sorted(names, key=lambda name: "half_precision" in load(name).given_facts)


def halves(points: int, finalists: int = FINALISTS) -> list[int]:
    """How many points are timed in each stage before the race: all, then the better half, and so on."""
    made = [points]
    while made[-1] > 2 * finalists:
        made.append(-(-made[-1] // 2))
    return made


class Journal:
    """Lines of a file, one for each thing that was done.

    Args:
        home: folder of the file, and of the points' folders.
    """

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.lines = home, Lines(home / "journal.jsonl")

    def add(self, did: str, **what: Any) -> None:
        """One more thing."""
        self.lines.add({"did": did, **what})

    def all(self, did: str) -> list[dict[str, Any]]:
        """What was done of a kind."""
        return [line for line in self.lines if line["did"] == did]

    def folders(self) -> dict[str, Path]:
        """Of the points that could be written and are the model, by what they are."""
        return {line["point"]: self.home / line["folder"] for line in self.all("built")}

    def times(self, stage: int | str) -> dict[str, list[float]]:
        """Seconds per item of each point in a stage."""
        seen: dict[str, list[float]] = {}
        for line in self.all("timed"):
            if line["stage"] == stage:
                seen.setdefault(line["point"], []).append(line["per_item"])
        return seen


def built(journal: Journal, evaluator: ModelEvaluator, recipes: Sequence[Recipe]) -> None:
    """Write the folders that are missing, each compared with the model as it is."""
    known = {line["point"] for line in journal.lines if line["did"] in ("built", "refused")}
    missing = [recipe for recipe in recipes if str(recipe) not in known]
    for number, recipe in enumerate(missing, 1):
        print(f"building {number} of {len(missing)}: {recipe}", file=sys.stderr)
        began = time.monotonic()
        try:
            folder = evaluator.folders.ensure(recipe)
            gate = evaluator.sameness(recipe)
            if gate.word != "passed":
                raise TrialFailed("refused", f"{gate.word}: {gate.reason}")
        except TrialFailed as failure:
            journal.add("refused", point=str(recipe), why=f"{failure.kind}: {failure.why}")
            continue
        place = f"point{len(journal.all('built'))}"
        shutil.copytree(folder, journal.home / place, dirs_exist_ok=True)
        takes = time.monotonic() - began
        journal.add("built", point=str(recipe), recipe=recipe.to_json(), folder=place, seconds=takes)


class Timer:
    """Times folders, each time in a new process.

    Args:
        seconds: of timed calls. batch: items in a call.
        until: when nothing more is begun, by `time.monotonic`.
    """

    def __init__(self, journal: Journal, *, seconds: float, batch: int, until: float) -> None:
        self._journal, self._folders = journal, journal.folders()
        self._seconds, self._batch, self._until = seconds, batch, until

    def stage(self, stage: int | str, points: Sequence[str], rounds: int = 1) -> bool:
        """Time what was not timed yet; whether that is all of it."""
        for number in range(rounds):
            seen = self._journal.times(stage)
            order = [point for point in points if len(seen.get(point, [])) <= number]
            random.Random(f"{stage} {number}").shuffle(order)
            for done, point in enumerate(order, 1):
                if time.monotonic() > self._until:
                    return False
                print(f"stage {stage}, {number + 1}/{rounds}, {done}/{len(order)}: {point}", file=sys.stderr)
                self._journal.add("timed", stage=stage, point=point, per_item=self._timed(point))
        return True

    def _timed(self, point: str) -> float:
        calls = self._journal.home / "calls.npz"
        isolated = point != str(Recipe())
        with Arm(self._folders[point], calls, isolated=isolated, timeout=600.0) as arm:
            arm.begin(max(self._seconds, 5 * arm.call))
            made = arm.finish()
        return sum(made) / len(made) / self._batch


def session(journal: Journal, request: ModelRequest) -> None:
    """Run one, unless the journal has it."""
    if journal.all("session"):
        return
    print(f"laptime tune {request.target}, {request.budget:.0f} s at most", file=sys.stderr)
    tuning = (
        tune_model(
            request, lambda event: print(event.text, file=sys.stderr) if isinstance(event, Progress) else None
        ).tuning
        or Tuning()
    )
    recipe = Recipe(tuple(Change(each.name, each.options) for each in tuning.recipe))
    journal.add(
        "session",
        recipe=recipe.to_json(),
        seconds_by=tuning.seconds_by,
        ended=tuning.ended,
        gate=tuning.gate.word,
        speedup=[tuning.speedup.value, *tuning.speedup.ci95] if tuning.speedup else None,
    )


def point_of(recipe: Recipe, points: Iterable[str]) -> str:
    """What the grid calls a set of changes, in whatever order these are; "" where it has none."""
    changes = sorted(map(str, recipe))
    return next((point for point in points if sorted(_changes(point)) == changes), "")


def _changes(point: str) -> list[str]:
    return [] if point == str(Recipe()) else point.split(" + ")


def survivors(journal: Journal, stages: int, size: int) -> list[str]:
    """The best so many after some stages, by the median of what was timed."""
    seen: dict[str, list[float]] = {}
    for stage in range(stages):
        for point, times in journal.times(stage).items():
            seen.setdefault(point, []).extend(times)
    last = journal.times(stages - 1)
    return sorted(last, key=lambda point: median(seen[point]))[:size]


def measured(journal: Journal, timer: Timer, rounds: int, kept: str) -> bool:
    """Halve the grid, then race what is left; whether all was done before time was up."""
    sizes = halves(len(journal.folders()))
    running = list(journal.folders())
    for stage, size in enumerate(sizes):
        running = survivors(journal, stage, size) if stage else running
        if not timer.stage(stage, running):
            return False
    finalists = survivors(journal, len(sizes), FINALISTS)
    return timer.stage("race", list(dict.fromkeys([*finalists, kept, str(Recipe())])), rounds)


def show(journal: Journal, kept: str) -> dict[str, Any]:
    """The grid's points and the race, the best first; figures for the file."""
    race, first = journal.times("race"), journal.times(0)
    base = median(race[str(Recipe())])
    order = [*sorted(race, key=lambda point: median(race[point]))]
    order += sorted(first.keys() - race.keys(), key=lambda point: first[point][0])
    rows = [
        (
            point + (" **(kept)**" if point == kept else ""),
            f"{1e3 * median(race[point]):.2f} ms" if point in race else "-",
            f"{base / median(race[point]):.2f}x" if point in race else "-",
            f"{1e3 * first[point][0]:.2f} ms",
        )
        for point in order
    ]
    table(("set of changes", "time per item, race", "speedup", "time per item, once"), rows)
    for line in journal.all("refused"):
        print(f"\n{line['point']} is no point: {line['why']}")
    found = regret({point: times for point, times in race.items() if point != str(Recipe())}, kept)
    print(f"\nRegret of what was kept ({kept}): {found}; asked for: at most {LIMIT:.0%}")
    return {"regret": found._asdict(), "race": race, "once": first, "kept": kept}


def shown_session(line: dict[str, Any]) -> bool:
    """Where its time went; whether that is what is asked for."""
    spent = line["seconds_by"]
    total, build = sum(spent.values()), spent.get("build", 0.0)
    print(
        f"\nSession: {total:.0f} s (asked for: {LONGEST:.0f} s at most), of it exporting and compiling "
        f"{build / total:.0%} (asked for: {BUILDING:.0%} at most), ended by {line['ended']}, "
        f"gate {line['gate']}"
    )
    return bool(total <= LONGEST and build <= BUILDING * total)


def main() -> int:
    """Build, tune, halve, race, tell; 1 when a limit is certainly passed."""
    asked = options().parse_args()
    if not asked.model:
        print("skipped: it takes an hour; say which model: --model torchvision:squeezenet1_1 --keep FOLDER")
        return 0
    until = time.monotonic() + 60 * asked.minutes
    request = ModelRequest(
        target=asked.model,
        batch=asked.batch,
        budget=asked.budget,
        allow=["precision"] if asked.precision else [],
        skip=[name for name in asked.skip.split(",") if name],
        timeout=600.0,
        save=False,
    )
    journal = Journal(asked.keep)
    if not journal.all("whole") and not _build(journal, request, asked):
        return 0
    data = head(
        f"Grid of sets of model changes of {asked.model}, batch {asked.batch}, against what laptime tune kept"
    )
    print(f"Instruction set: {', '.join(instructions())}\n")
    session(journal, request)
    line = journal.all("session")[-1]
    kept = point_of(Recipe.from_json(line["recipe"]), journal.folders())
    if not kept:
        print("what the session kept is no point of the grid")
        return 1
    timer = Timer(journal, seconds=asked.seconds, batch=asked.batch, until=until)
    if not measured(journal, timer, asked.rounds, kept):
        print("not done within --minutes: the same command goes on")
        return 0
    figures = show(journal, kept)
    holds = shown_session(line)
    write(asked.json, {**data, **figures, "session": line})
    return 0 if holds and figures["regret"]["low"] <= LIMIT else 1


def _build(journal: Journal, request: ModelRequest, asked: Any) -> bool:
    """Write all folders; whether to go on."""
    with tempfile.TemporaryDirectory(prefix="laptime-grid-", ignore_cleanup_errors=True) as folder:
        try:
            evaluator = ModelEvaluator(request, Path(folder))
        except LaptimeError as error:
            print(f"{error.what}: {error.why}")
            return False
        facts = frozenset(evaluator.surveyed["facts"])
        threads = int(evaluator.surveyed["threads"])
        loop_profile = LoopProfile(step=1.0, cpus=len(_usable()), threads=threads, facts=facts)
        recipes = points(loop_profile, allowed(request))
        print(
            f"{len(recipes)} points, timed {' + '.join(map(str, halves(len(recipes))))} times",
            file=sys.stderr,
        )
        if asked.dry_run:
            print("\n".join(map(str, recipes)))
            return False
        shutil.copyfile(Path(folder) / "calls.npz", journal.home / "calls.npz")
        built(journal, evaluator, recipes)
    journal.add("whole", points=len(recipes), where=where())
    return not asked.build


def _usable() -> Sequence[int]:
    from laptime.verbs.bench.variants import usable

    return usable()


def options() -> argparse.ArgumentParser:
    """Of the command line."""
    made = parser(__doc__ or "")
    made.add_argument("--model", default="", help="a target of laptime tune MODEL")
    made.add_argument("--batch", type=int, default=1)
    made.add_argument("--keep", type=Path, default=Path("grid"), help="folder of the points and the journal")
    made.add_argument("--skip", default="", help="names of changes, of the grid and of the session")
    made.add_argument("--precision", action="store_true", help="changes of this class, too")
    made.add_argument("--rounds", type=int, default=8, help="of the race")
    made.add_argument("--seconds", type=float, default=1.5, help="of timed calls in each process")
    made.add_argument("--budget", type=float, default=600.0, help="seconds of the session")
    made.add_argument("--minutes", type=float, default=1e6, help="no process is started after so many")
    made.add_argument("--build", action="store_true", help="write the folders, and no more")
    made.add_argument("--dry-run", action="store_true", help="list the points, and no more")
    return made


if __name__ == "__main__":
    sys.exit(main())
