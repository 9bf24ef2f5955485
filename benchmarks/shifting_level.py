"""Does the interval of a p99 hold the truth where calls follow the level of their block or process?

For each way that levels move, of calls made up by chance: how often the usual interval of a quantile exists,
how often the one of `analysis.shifting_level` does, how often that holds the quantile of very many calls, and
how far its upper end lies above. Where it holds too rarely, a `--slo` is called kept that is not.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial

import numpy as np

from _harness import head, parser, table, write
from fixtures import shifting_calls
from laptime.analysis import quantiles, shifting_level
from laptime.analysis.quantiles import Floats

Dice = np.random.Generator
TRUTH = 200
"""Series that together give the true quantile."""
HOLDS = 0.9
"""Share of intervals that hold the truth, at least, however levels move."""


def wandering(dice: Dice, n: int, memory: float) -> Floats:
    """A stationary autoregressive series of variance 1; `memory`: correlation of neighbours."""
    steps = dice.normal(size=n) * math.sqrt(1 - memory**2)
    steps[0] = dice.normal()
    made = np.empty(n)
    last = 0.0
    for at, step in enumerate(steps.tolist()):
        last = memory * last + step
        made[at] = last
    return made


def autoregressive(dice: Dice, n: int, memory: float) -> Floats:
    """Levels that wander all the time."""
    return np.asarray(np.exp(0.1 * wandering(dice, n, memory)))


def blocks(dice: Dice, n: int, level: float) -> Floats:
    """Every block has a level of its own; 2 % of calls take longer."""
    return shifting_calls.with_tail(dice, shifting_calls.of_blocks(dice, n, level))


def processes(dice: Dice, n: int, level: float) -> Floats:
    """Six processes have levels of their own, blocks drift by 1 %; 2 % of calls take longer."""
    return shifting_calls.with_tail(dice, shifting_calls.of_processes(dice, n, level))


def bursts(dice: Dice, n: int, memory: float) -> Floats:
    """A twentieth of the time calls take twice as long, for a while."""
    slow = wandering(dice, n, memory) > 1.645
    return np.asarray(np.exp(0.05 * dice.normal(size=n)) * np.where(slow, 2.0, 1.0))


Make = Callable[[Dice, int], Floats]
WAYS: dict[str, Make] = {
    **{f"wander, memory {memory}": partial(autoregressive, memory=memory) for memory in (0.9, 0.99, 0.999)},
    **{f"blocks, {level:.0%}": partial(blocks, level=level) for level in (0.02, 0.1)},
    **{f"processes, {level:.0%}": partial(processes, level=level) for level in (0.02, 0.1)},
    **{f"bursts, memory {memory}": partial(bursts, memory=memory) for memory in (0.9, 0.99)},
}


def answers(make: Make, n: int, q: float, seeds: int) -> dict[str, float]:
    """Shares of series."""
    many = [make(np.random.default_rng(10**6 + seed), n) for seed in range(TRUTH)]
    truth = float(np.quantile(np.concatenate(many), q))
    usual, ends = 0, list[tuple[float, float]]()
    for seed in range(seeds):
        made = make(np.random.default_rng(seed), n)
        usual += quantiles.interval(made, q) is not None
        if (wide := shifting_level.interval(made, q)) is not None:
            ends.append(wide)
    return {
        "usual": usual / seeds,
        "exists": len(ends) / seeds,
        "holds": sum(low <= truth <= high for low, high in ends) / len(ends) if ends else math.nan,
        "above": float(np.median([high / truth - 1 for _, high in ends])) if ends else math.nan,
    }


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0%}"


def main() -> int:
    """Print the table."""
    options = parser(__doc__ or "")
    options.add_argument("--calls", type=int, default=12_000)
    options.add_argument("--quantile", type=float, default=0.99)
    options.add_argument("--seeds", type=int, default=200)
    asked = options.parse_args()
    data = {
        **head(f"p{100 * asked.quantile:g} of {asked.calls:,} calls"),
        "ways": {
            name: answers(make, asked.calls, asked.quantile, asked.seeds) for name, make in WAYS.items()
        },
    }
    write(asked.json, data)
    table(
        (
            "how levels move",
            "usual interval exists",
            "this one exists",
            "it holds the truth",
            "upper end above",
        ),
        [
            (name, *(_share(each[key]) for key in ("usual", "exists", "holds", "above")))
            for name, each in data["ways"].items()
        ],
    )
    worst = min(each["holds"] for each in data["ways"].values() if each["exists"] > 0)
    print(f"It holds the truth in at least {worst:.0%} of all series; asked for: {HOLDS:.0%}")
    return int(worst < HOLDS)


if __name__ == "__main__":
    sys.exit(main())
