"""How long does it take to list thousands of stored runs?

Asked for: under 100 ms once the index knows them. The runs are small (40 samples) and made by hand;
`--samples` makes them larger, which only the first listing after a loss of the index can feel.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import structs

from _harness import Figures, option, run, shown, table
from _stored import command, fill
from fixtures import runs
from laptime.records.run import Run
from laptime.store import index

LIMIT = 0.100


def made(number: int, samples: int) -> Iterator[Run]:
    """So many runs with the same samples."""
    run = runs.run(runs.case(runs.timings(0.0263, n=samples, warm_up=3), *runs.facts()))
    for at in range(number):
        day, second = at // 1000 % 28 + 1, at % 1000
        yield structs.replace(run, id=f"202608{day:02d}-{second:06d}-{at:06d}-a")


def timed(root: Path, rounds: int) -> list[float]:
    """Seconds of listing all runs, in this process."""
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        list(index.listing(root)[0])
        found.append(time.perf_counter() - started)
    return found


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when listing from the index is over the limit."""
    data |= {"limit": LIMIT, "rows": []}
    rows, over = [], False
    for number in (int(word) for word in asked.runs.split(",")):
        with tempfile.TemporaryDirectory(prefix="laptime-store-") as folder:
            root = Path(folder)
            fill(root, made(number, asked.samples))
            row: dict[str, Any] = {
                "runs": number,
                "first": timed(root, 1),
                "known": timed(root, asked.rounds),
            }
            row["list"] = command(root, asked.rounds, "list")
            row["list --all"] = command(root, asked.rounds, "list", "--all")
        data["rows"].append(row)
        over |= sorted(row["known"])[asked.rounds // 2] > LIMIT
        cells = (shown(row[name], factor=1e3, unit="ms", digits=0) for name in row if name != "runs")
        rows.append((f"{number:,}", *cells))
    table(("runs", "index made", "all from the index", "`laptime list`", "`laptime list --all`"), rows)
    print(f"\nlimit of listing all from the index: {LIMIT * 1e3:.0f} ms")
    return int(over)


if __name__ == "__main__":
    run(
        main,
        "Listing stored runs",
        option("--runs", default="1000,5000", help="numbers of stored runs, with commas"),
        option("--samples", type=int, default=40, help="samples of a run"),
        option("--rounds", type=int, default=9),
    )
