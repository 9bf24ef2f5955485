"""How often does a search keep what does nothing, and how far from the best does it end?

Scripted machines whose truth is known (`tests/fixtures/scripted_evaluator.py`): one where no knob does
anything, and the fourteen knobs of the article, of which the best set is 5.0 times as fast. Asked for: with
--certify at most 5 % of sessions on the first keep anything; on the second the fast mode ends within 4 % of
the best on the average, at the reference noise and with time enough. For comparison: measure everything once
and keep what was faster.

    python benchmarks/tune_search.py --sessions 400 --write    # puts the tables into docs/tune_search.md
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from _harness import head, parser, write
from fixtures.scripted_evaluator import USELESS, Noise, ScriptedEvaluator, landscape, null_world
from laptime.records.tuning import Gate, Rung
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.ladder import search
from laptime.tuning.search.settings import SearchSettings, effects

DOCS = Path(__file__).resolve().parents[1] / "docs" / "tune_search.md"
BEGIN, END = "<!-- benchmarks/tune_search.py -->", "<!-- end -->"
NOISES = {
    "quiet: 1 %": Noise(block=0.01, spike=0.0, flip=0.0, drift=0.003),
    "reference: 2 %, spikes, drift, flips": Noise(),
    "5 %, the same": Noise(block=0.05),
    "15 %, the same": Noise(block=0.15),
    "2 %, processes 2 % apart": Noise(process=0.02),
}
REFERENCE = "reference: 2 %, spikes, drift, flips"
HARMLESS = (*USELESS, "threads")
BUDGETS = (600.0, 1200.0, 3600.0)
ENOUGH = 1200.0
OTHER = 1_000_000
"""What the seed of an earlier session is larger by."""
FALSE, REGRET = 0.05, 0.04


Result = TypeVar("Result")


class Session(NamedTuple):
    """One scripted session.

    Attributes:
        kept: changes in the final set; useless: those of them that do nothing or harm.
        ever: changes that were kept at some time. regret: step over the best step, minus 1.
        rounds, seconds: what it took.
    """

    kept: int
    useless: int
    ever: int
    regret: float
    rounds: int
    seconds: float


def null_session(seed: int, noise: str, certify: bool) -> Session:
    """A session on the machine where nothing helps."""
    world = null_world(seed, noise=NOISES[noise])
    found = search(world, SearchSettings(budget=3600.0, certify=certify))
    ever = sum(rung.kept or rung.dropped for rung in found.ladder)
    kept = len(found.recipe)
    return Session(kept, kept, ever, 0.0, world.rounds, world.elapsed())


def landscape_session(seed: int, noise: str, certify: bool, budget: float, best: float) -> Session:
    """A session on the article's knobs."""
    world = landscape(seed, noise=NOISES[noise])
    found = search(world, SearchSettings(budget=budget, certify=certify))
    useless = sum(name in HARMLESS for name in found.recipe.names)
    regret = world.true_step(found.recipe) / best - 1
    return Session(len(found.recipe), useless, 0, regret, world.rounds, world.elapsed())


class Repeated(NamedTuple):
    """The same session without and with what an earlier one, with other noise, has shown.

    Attributes:
        alone, informed: seconds until the first change was kept; None where none was.
        regret_alone, regret: as `Session`, of both.
    """

    alone: float | None
    informed: float | None
    regret_alone: float
    regret: float


def repeated_session(seed: int, noise: str, certify: bool, is_misleading: bool, best: float) -> Repeated:
    """A session on the article's knobs, after another one and without it.

    Args:
        is_misleading: the bounds of the useless knobs promise most.
    """
    settings = SearchSettings(budget=ENOUGH, certify=certify)
    earlier = search(_knobs(OTHER + seed, noise, is_misleading), settings).ladder
    known = replace(settings, earlier_effects=effects([("earlier", earlier)]))
    alone, regret_alone = _first_kept(_knobs(seed, noise, is_misleading), settings, best)
    informed, regret = _first_kept(_knobs(seed, noise, is_misleading), known, best)
    return Repeated(alone, informed, regret_alone, regret)


def _knobs(seed: int, noise: str, is_misleading: bool) -> ScriptedEvaluator:
    world = landscape(seed, noise=NOISES[noise])
    if not is_misleading:
        return world
    knobs = tuple(replace(one, reach=1.0, prior=0.9) if one.name in USELESS else one for one in world.knobs)
    return replace(world, knobs=knobs)


def _first_kept(
    world: ScriptedEvaluator, settings: SearchSettings, best: float
) -> tuple[float | None, float]:
    kept: list[float] = []

    def on_rung(rung: Rung) -> None:
        if rung.kept:
            kept.append(world.elapsed())

    found = search(world, settings, on_rung)
    return (kept[0] if kept else None), world.true_step(found.recipe) / best - 1


def misled_session(seed: int, noise: str, certify: bool) -> bool:
    """Whether something is kept where nothing helps and an earlier session says that half of it won 1.5x."""
    won = [
        Rung(name=f"knob{at:02}", verdict="faster", speedup=1.5, ci95=(1.4, 1.6), gate=Gate(word="passed"))
        for at in range(0, 14, 2)
    ]
    settings = SearchSettings(budget=3600.0, certify=certify, earlier_effects=effects([("earlier", won)]))
    return len(search(null_world(seed, noise=NOISES[noise]), settings).recipe) > 0


def greedy_session(seed: int, noise: str, null: bool, best: float) -> Session:
    """What people do by hand: each change measured once, one after the other, kept when it was faster."""
    world = (null_world if null else landscape)(seed, noise=NOISES[noise])
    recipe, useless = Recipe(), 0
    for candidate in world.candidates(world.diagnose(recipe), recipe).usable:
        target = recipe.plus(candidate.change)
        if candidate.change.name != "identity" and next(world.race(recipe, target)).ratio < 1:
            recipe = target
            useless += null or candidate.change.name in HARMLESS
    return Session(len(recipe), useless, 0, world.true_step(recipe) / best - 1, world.rounds, world.elapsed())


def many(pool: ProcessPoolExecutor, do: Callable[..., Result], count: int, *given: Any) -> list[Result]:
    """Sessions with the seeds 0 to count - 1."""
    jobs = [pool.submit(do, seed, *given) for seed in range(count)]
    return [job.result() for job in jobs]


def null_table(pool: ProcessPoolExecutor, count: int) -> tuple[list[tuple[str, ...]], dict[str, float]]:
    """Rows, and the share of sessions with a useless change by mode and noise."""
    rows: list[tuple[str, ...]] = []
    shares: dict[str, float] = {}
    for noise in NOISES:
        for mode in ("once", "fast", "certify"):
            if mode == "once":
                found = many(pool, greedy_session, count, noise, True, 1.0)
            else:
                found = many(pool, null_session, count, noise, mode == "certify")
            share = sum(one.kept > 0 for one in found) / count
            shares[f"{mode}, {noise}"] = share
            ever = "" if mode == "once" else f"{sum(one.ever > 0 for one in found) / count:.1%}"
            rows.append((noise, mode, f"{share:.1%}", ever, *_cost(found)))
    return rows, shares


def regret_table(pool: ProcessPoolExecutor, count: int) -> tuple[list[tuple[str, ...]], dict[str, float]]:
    """Rows, and the mean regret by mode, noise and budget."""
    best = landscape().best()[1]
    rows: list[tuple[str, ...]] = []
    means: dict[str, float] = {}
    for noise in list(NOISES)[:4]:
        rows.append((noise, "once", "", *_regret(many(pool, greedy_session, count, noise, False, best))))
        for mode in ("fast", "certify"):
            for budget in BUDGETS:
                found = many(pool, landscape_session, count, noise, mode == "certify", budget, best)
                means[f"{mode}, {noise}, {budget:g}"] = statistics.mean(one.regret for one in found)
                rows.append((noise, mode, f"{budget:g} s", *_regret(found)))
    return rows, means


def earlier_tables(pool: ProcessPoolExecutor, few: int, count: int) -> str:
    """Time to the first kept change after an earlier session, and what misleading ones do."""
    best = landscape().best()[1]
    rows: list[tuple[str, ...]] = []
    misled: list[tuple[str, ...]] = []
    for noise in (REFERENCE, "5 %, the same"):
        for mode in ("fast", "certify"):
            for bounds in ("as they are", "misleading"):
                is_misleading = bounds == "misleading"
                found = many(pool, repeated_session, few, noise, mode == "certify", is_misleading, best)
                alone = statistics.median(one.alone or ENOUGH for one in found)
                informed = statistics.median(one.informed or ENOUGH for one in found)
                regrets = [statistics.mean(one[at] for one in found) for at in (2, 3)]
                shown = (f"{alone:.0f} s", f"{informed:.0f} s", f"{alone / informed:.1f}")
                rows.append((noise, mode, bounds, *shown, *(f"{each:.1%}" for each in regrets)))
            share = sum(many(pool, misled_session, count, noise, mode == "certify")) / count
            misled.append((noise, mode, f"{share:.1%}"))
    columns = (
        "noise",
        "mode",
        "bounds",
        "alone",
        "after a session",
        "times as early",
        "regret alone",
        "after it",
    )
    return (
        f"**After an earlier session** on the article's knobs ({few} sessions a row, 1200 s): "
        f"median time to the first kept change.\n\n{markdown(columns, rows)}\n\n"
        f"**Misled**: nothing helps, and an earlier session says that seven of the 14 knobs won 1.5x "
        f"({count} sessions a row).\n\n{markdown(('noise', 'mode', 'kept something'), misled)}"
    )


def _regret(found: list[Session]) -> tuple[str, ...]:
    regrets = sorted(one.regret for one in found)
    return (
        f"{statistics.mean(regrets):.1%}",
        f"{regrets[int(0.9 * len(regrets))]:.1%}",
        f"{statistics.mean(one.useless for one in found):.2f}",
        *_cost(found),
    )


def _cost(found: list[Session]) -> tuple[str, str]:
    rounds = statistics.mean(one.rounds for one in found)
    return f"{rounds:.0f}", f"{statistics.mean(one.seconds for one in found):.0f} s"


def markdown(columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    """A table as text."""
    names = list(columns)
    lines = [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def put(text: str, tables: str) -> str:
    """The page with the measured part between its marks replaced.

    Raises:
        ValueError: the page has no marks.
    """
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    return f"{text[:before]}\n\n{tables}\n\n{text[after:]}"


def main() -> int:
    """Print both tables; 1 when a promise is broken."""
    options = parser(__doc__ or "")
    options.add_argument(
        "--sessions", type=int, default=200, help="scripted sessions a row; a quarter where something helps"
    )
    options.add_argument("--write", action="store_true", help="put the tables into docs/tune_search.md")
    asked = options.parse_args()
    data = head("Searches on scripted machines")
    with ProcessPoolExecutor() as pool:
        null_rows, shares = null_table(pool, asked.sessions)
        few = max(20, asked.sessions // 4)
        regret_rows, regrets = regret_table(pool, few)
        after = earlier_tables(pool, few, asked.sessions)
    null = markdown(("noise", "mode", "kept something", "before leave-one-out", "rounds", "takes"), null_rows)
    regret = markdown(
        ("noise", "mode", "budget", "regret, mean", "p90", "useless kept", "rounds", "takes"), regret_rows
    )
    tables = (
        "`once`: each change measured once, kept when faster, as people do by hand.\n\n"
        f"**Nothing helps** (14 knobs, {asked.sessions} sessions a row): ends with a useless change."
        f"\n\n{null}\n\n"
        f"**The article's knobs** (best set: 5.0 times, {few} sessions a row): how far from the best set."
        f"\n\n{regret}\n\n{after}"
    )
    print(tables)
    if asked.write:
        DOCS.write_text(put(DOCS.read_text(encoding="utf-8"), tables), encoding="utf-8")
    write(asked.json, {**data, "sessions": asked.sessions, "false": shares, "regret": regrets})
    false = [name for name, share in shares.items() if name.startswith("certify") and share > FALSE]
    far = regrets[f"fast, {REFERENCE}, {ENOUGH:g}"]
    for name in false:
        print(f"more than {FALSE:.0%} of sessions keep a useless change: {name}", file=sys.stderr)
    if far > REGRET:
        print(f"the fast mode ends {far:.1%} from the best, more than {REGRET:.0%}", file=sys.stderr)
    return int(bool(false) or far > REGRET)


if __name__ == "__main__":
    sys.exit(main())
