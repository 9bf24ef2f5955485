"""How long does it take to list thousands of stored runs?

Asked for: under 100 ms once the index knows them. The runs are small (40 samples) and made by hand;
`--samples` makes them larger, which only the first listing after a loss of the index can feel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from msgspec import structs

from _shown import head, parser, shown, table, write
from fixtures import runs
from laptime.store import files, index

LIMIT = 0.100


def fill(root: Path, number: int, samples: int) -> None:
    """So many run files, changed a minute ago."""
    run = runs.run(runs.case(runs.timings(0.0263, n=samples, warm_up=3), *runs.facts()))
    then = time.time_ns() - 60 * 10**9
    for at in range(number):
        day, second = at // 1000 % 28 + 1, at % 1000
        path = files.save(structs.replace(run, id=f"202608{day:02d}-{second:06d}-{at:06d}-a"), root)
        os.utime(path, ns=(then, then))


def timed(root: Path, rounds: int) -> list[float]:
    """Seconds of listing all runs, in this process."""
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        index.listing(root)
        found.append(time.perf_counter() - started)
    return found


def command(root: Path, rounds: int, *more: str) -> list[float]:
    """Seconds of `laptime list`, the start of Python in it."""
    found = []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "laptime", "list", *more],
            env={**os.environ, "LAPTIME_HOME": str(root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        found.append(time.perf_counter() - started)
    return found


def main() -> int:
    """Print the table; 1 when listing from the index is over the limit."""
    options = parser(__doc__ or "")
    options.add_argument("--runs", default="1000,5000", help="numbers of stored runs, with commas")
    options.add_argument("--samples", type=int, default=40, help="samples of a run")
    options.add_argument("--rounds", type=int, default=9)
    asked = options.parse_args()
    data: dict[str, Any] = {**head("Listing stored runs"), "limit": LIMIT, "rows": []}
    rows, over = [], False
    for number in (int(word) for word in asked.runs.split(",")):
        with tempfile.TemporaryDirectory(prefix="laptime-store-") as folder:
            root = Path(folder)
            fill(root, number, asked.samples)
            row: dict[str, Any] = {
                "runs": number,
                "first": timed(root, 1),
                "known": timed(root, asked.rounds),
            }
            row["list"] = command(root, asked.rounds)
            row["list --all"] = command(root, asked.rounds, "--all")
        data["rows"].append(row)
        over |= sorted(row["known"])[asked.rounds // 2] > LIMIT
        cells = (shown(row[name], factor=1e3, unit="ms", digits=0) for name in row if name != "runs")
        rows.append((f"{number:,}", *cells))
    table(("runs", "index made", "all from the index", "`laptime list`", "`laptime list --all`"), rows)
    print(f"\nlimit of listing all from the index: {LIMIT * 1e3:.0f} ms")
    write(asked.json, data)
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
