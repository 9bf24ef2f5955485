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
from pathlib import Path
from typing import Any, NamedTuple

from _shown import head, parser, write
from fixtures.scripted_evaluator import USELESS, Noise, landscape, null_world
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.ladder import search
from laptime.tuning.search.settings import SearchSettings

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
FALSE, REGRET = 0.05, 0.04


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


def many(pool: ProcessPoolExecutor, do: Callable[..., Session], count: int, *given: Any) -> list[Session]:
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
    null = markdown(("noise", "mode", "kept something", "before leave-one-out", "rounds", "takes"), null_rows)
    regret = markdown(
        ("noise", "mode", "budget", "regret, mean", "p90", "useless kept", "rounds", "takes"), regret_rows
    )
    tables = (
        "`once`: each change measured once, kept when faster, as people do by hand.\n\n"
        f"**Nothing helps** (14 knobs, {asked.sessions} sessions a row): ends with a useless change."
        f"\n\n{null}\n\n"
        f"**The article's knobs** (best set: 5.0 times, {few} sessions a row): how far from the best set."
        f"\n\n{regret}"
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
