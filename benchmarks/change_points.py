"""How often does `laptime history` name a change where there is none, and how often is a planted one found?

Histories are drawn, not measured: the truth is known. Asked for: at most 1 of 100 histories without a change
gets one, for every kind of noise whose runs are alike whatever their order. Noise whose neighbours resemble
each other (AR) is reported without a limit: there the promise does not hold.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np

from _harness import Figures, option, run, table
from laptime.analysis.change_points import LEVEL, changes

Draw = Callable[[np.random.Generator, int], Any]


def autocorrelated(rho: float) -> Draw:
    """Noise of 1 % in which each run keeps a share of the last one's."""

    def draw(dice: np.random.Generator, n: int) -> Any:
        found = dice.normal(0, 0.01, n)
        for at in range(1, n):
            found[at] = rho * found[at - 1] + np.sqrt(1 - rho**2) * found[at]
        return found

    return draw


NULLS: dict[str, Draw] = {
    "normal, 1 %": lambda dice, n: dice.normal(0, 0.01, n),
    "Student t with 2 df": lambda dice, n: 0.01 * dice.standard_t(2, n),
    "1 of 10 runs slower by 40 %": lambda dice, n: dice.normal(0, 0.01, n) + 0.34 * (dice.random(n) < 0.1),
    "two speeds 1.4 apart, at random": lambda dice, n: (
        dice.normal(0, 0.01, n) + 0.34 * (dice.random(n) < 0.4)
    ),
    "rounded to 1 %": lambda dice, n: np.round(dice.normal(0, 0.01, n), 2),
}
WITHOUT_PROMISE = {"AR 0.3": autocorrelated(0.3), "AR 0.6": autocorrelated(0.6)}


def named(draw: Draw, n: int, seeds: int, step: float = 0.0, after: int = 0) -> dict[str, Any]:
    """Counts over histories of n runs, the last `after` of them slower by `step`."""
    dice = np.random.default_rng(n)
    any_, exact, near, more = 0, 0, 0, 0
    for _ in range(seeds):
        logs = draw(dice, n)
        if after:
            logs[n - after :] += np.log1p(step)
        places = [change.at for change in changes([np.exp(logs).tolist()])[0]]
        any_ += bool(places)
        exact += (n - after) in places
        near += any(abs(place - (n - after)) <= 2 for place in places)
        more += len(places) > 1
    return {"histories": seeds, "named": any_, "exact": exact, "near": near, "more than one": more}


def main(asked: Namespace, data: Figures) -> int:
    """Print both tables; 1 when noise is called a change more often than promised."""
    data |= {"level": LEVEL, "null": [], "planted": []}
    # Three standard errors above the promise: a right method is called wrong by chance 1 in 700 times.
    limit = LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / asked.seeds)
    rows, over = [], False
    for kind, draw in {**NULLS, **WITHOUT_PROMISE}.items():
        for n in (20, 60):
            found = named(draw, n, asked.seeds)
            over |= kind in NULLS and found["named"] / asked.seeds > limit
            rows.append((kind, str(n), f"{found['named'] / asked.seeds:.1%}"))
            data["null"].append({"noise": kind, "runs": n, **found})
    table(("noise, no change", "runs", "histories with a change named"), rows)
    print()
    rows = []
    for step in (0.02, 0.05, 0.10):
        for n, after in ((30, 4), (30, 15), (60, 10)):
            found = named(NULLS["normal, 1 %"], n, max(50, asked.seeds // 5), step, after)
            shares = (f"{found[key] / found['histories']:.0%}" for key in ("near", "exact", "more than one"))
            rows.append((f"{step:.0%}", str(n), str(after), *shares))
            data["planted"].append({"step": step, "runs": n, "after": after, **found})
    table(
        ("step, noise 1 %", "runs", "after it", "found within 2 runs", "at the very run", "more than one"),
        rows,
    )
    print(f"\nlimit of named changes without one: {limit:.1%} ({asked.seeds} histories)")
    return int(over)


if __name__ == "__main__":
    run(main, "Change points", option("--seeds", type=int, default=400, help="histories of each kind"))
