"""How long does `laptime history` take on thousands of stored runs?

Asked for: half a second once the index knows them, with and without `--last`. The runs are made by hand: one
program on four machines, its level 10 % higher in the newest third, 40 samples each.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from _harness import Figures, option, run, shown, table
from _stored import command, fill
from fixtures import runs
from laptime.records.run import Run

LIMIT = 0.5


def made(number: int) -> Iterator[Run]:
    """So many runs, their medians 1 % apart."""
    known = runs.environment()
    for at in range(number):
        level = 0.02 * (1.1 if at > number * 2 // 3 else 1.0)
        case = runs.case(runs.timings(level, n=40, spread=0.06, seed=at), *runs.facts())
        environment = structs.replace(known, host=f"ci-{at % 4}")
        day, second = at // 1000 % 28 + 1, at % 1000
        yield structs.replace(
            runs.run(case, environment=environment), id=f"202608{day:02d}-{second:06d}-{at:06d}-a"
        )


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when a history from the index takes longer than the limit."""
    data |= {"limit": LIMIT, "runs": asked.runs}
    with tempfile.TemporaryDirectory(prefix="laptime-history-") as folder:
        root = Path(folder)
        fill(root, made(asked.runs))
        data["rows"] = {
            f"`laptime history --last {asked.runs}`, index made": command(
                root, 1, "history", "--last", str(asked.runs)
            ),
            "`laptime history`": command(root, asked.rounds, "history"),
            f"`laptime history --last {asked.runs}`": command(
                root, asked.rounds, "history", "--last", str(asked.runs)
            ),
            f"`laptime history --by machine --last {asked.runs}`": command(
                root, asked.rounds, "history", "--by", "machine", "--last", str(asked.runs)
            ),
        }
    table(
        ("command", f"{asked.runs:,} runs"),
        [(name, shown(seconds, factor=1e3, unit="ms", digits=0)) for name, seconds in data["rows"].items()],
    )
    known = [seconds for name, seconds in data["rows"].items() if "index made" not in name]
    print(f"\nlimit of a history from the index: {LIMIT * 1e3:.0f} ms")
    return int(any(sorted(seconds)[len(seconds) // 2] > LIMIT for seconds in known))


if __name__ == "__main__":
    run(
        main,
        "Histories of stored runs",
        option("--runs", type=int, default=3000, help="number of stored runs"),
        option("--rounds", type=int, default=9),
    )
