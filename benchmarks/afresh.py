"""How often does the interval of a gain that is measured afresh hold the truth, where processes differ?

Pairs of made-up processes whose time ratio scatters around 1: normally, with heavy tails, or with one process
in seven slowed down by a neighbour's burst. Each measurement stops as sessions do: by time after so many
pairs, or when it is narrow.

    holds      measurements whose 95 % interval holds the truth
    differ     those that call two equal sides faster or slower
    half       median half-width
"""

from __future__ import annotations

import math
import random
from argparse import Namespace
from collections.abc import Callable
from statistics import median

from _harness import Figures, option, run, table
from laptime.records.tuning import Speedup
from laptime.tuning.session.afresh import Visited, gain, measured_pairs, ratios

Dice = random.Random
STOPS = (3, 4, 5, 7, 9)
"""Pairs after which the time is up."""


def _heavy(dice: Dice, scatter: float) -> float:
    """Student's t with three degrees of freedom, of the same standard deviation."""
    chi = sum(dice.gauss(0, 1) ** 2 for _ in range(3))
    return scatter / math.sqrt(3) * dice.gauss(0, 1) / math.sqrt(chi / 3)


def _burst(dice: Dice, scatter: float) -> float:
    """One process in seven meets a neighbour that takes a third of its speed; either side may."""
    hit = [0.29 if dice.random() < 1 / 7 else 0.0 for _ in range(2)]
    return dice.gauss(0, scatter) + hit[0] - hit[1]


WORLDS: dict[str, Callable[[Dice, float], float]] = {
    "normal": lambda dice, scatter: dice.gauss(0, scatter),
    "heavy tails": _heavy,
    "bursts": _burst,
}


def measure(dice: Dice, world: str, scatter: float, stop: int) -> Speedup:
    """One measurement of two equal sides."""
    seconds = [0.0]

    def visit(number: int) -> tuple[Visited, Visited]:
        seconds[0] += 1.0
        final = math.exp(WORLDS[world](dice, scatter))
        return Visited(1.0, [1.0], 1.0), Visited(final, [final], 1.0)

    *_, pairs = measured_pairs(
        visit, most=stop, elapsed=lambda: seconds[0], until=math.inf, end=math.inf, expected=1.0
    )
    found = gain(ratios(pairs))
    assert found is not None
    return found


def main(asked: Namespace, data: Figures) -> int:
    """Print a table; 1 where an interval holds the truth in less than 93 %."""
    rows = []
    for world in WORLDS:
        for scatter in (0.003, 0.007, 0.03, 0.07, 0.14, 0.22):
            for stop in STOPS:
                dice = random.Random(f"{world}{scatter}{stop}")
                found = [measure(dice, world, scatter, stop) for _ in range(asked.each)]
                row = {
                    "world": world,
                    "scatter": scatter,
                    "pairs": stop,
                    "holds": sum(each.ci95[0] <= 1 <= each.ci95[1] for each in found) / asked.each,
                    "differ": sum(each.word in ("faster", "slower") for each in found) / asked.each,
                    "half": median(math.log(each.ci95[1] / each.ci95[0]) / 2 for each in found),
                }
                rows.append(row)
    table(
        ("processes", "differ by", *(f"{stop} pairs: holds, differ, half" for stop in STOPS)),
        [
            (world, f"{scatter:.1%}", *(_shown(row) for row in rows if (row["world"], row["scatter"]) == key))
            for key in dict.fromkeys((row["world"], row["scatter"]) for row in rows)
            for world, scatter in [key]
        ],
    )
    data |= {"rows": rows}
    return int(min(row["holds"] for row in rows) < 0.93)


def _shown(row: dict[str, float]) -> str:
    return f"{row['holds']:.1%}, {row['differ']:.1%}, {row['half']:.1%}"


if __name__ == "__main__":
    run(
        main,
        "Gains measured afresh: intervals, where processes differ",
        option("--each", type=int, default=2000, help="measurements of a row"),
    )
