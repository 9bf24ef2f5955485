"""How far apart are two processes of one program, and does it depend on the CPU that they run on?

Pairs of fresh processes make the same 100 matrix products, in blocks of 80 ms beside each other. In `free`
blocks the calling thread stays where the kernel puts it; in `moved` ones it is bound to one CPU, the same for
both, drawn anew for each round. An offset that is the same in both belongs to the process, not to its CPU.

    offset    mean log ratio of one process to its twin, over the rounds of a pair
    error     its standard error from the rounds: what the offset would be if twins were alike
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import time
from statistics import fmean, median, stdev

from _harness import head, parser, table, write
from _planted import work_100

MODES = ("free", "moved")
BLOCK = 0.08
"""Seconds of a block."""


def child() -> None:
    """Answer each line `CPU` or `-` on stdin with the median seconds of a call in one block."""
    work, cpus = work_100(), os.sched_getaffinity(0)
    for _ in range(50):
        work()
    print("ready", flush=True)
    for line in sys.stdin:
        os.sched_setaffinity(0, cpus if line.strip() == "-" else {int(line)})
        work()
        seconds: list[float] = []
        end = time.perf_counter() + BLOCK
        while time.perf_counter() < end:
            began = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - began)
        print(median(seconds), flush=True)


def offsets(rounds: int, draw: random.Random) -> dict[str, list[float]]:
    """Log ratio of every round of one pair of processes, by mode."""
    command = [sys.executable, __file__, "--child"]
    twins = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for twin in twins:
        assert twin.stdout is not None
        twin.stdout.readline()
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    for number in range(rounds * len(MODES)):
        mode = MODES[number % len(MODES)]
        where = "-" if mode == "free" else str(draw.choice(sorted(os.sched_getaffinity(0))))
        seconds = {}
        for at in draw.sample((0, 1), 2):
            twin = twins[at]
            assert twin.stdin is not None
            assert twin.stdout is not None
            twin.stdin.write(where + "\n")
            twin.stdin.flush()
            seconds[at] = float(twin.stdout.readline())
        found[mode].append(math.log(seconds[1] / seconds[0]))
    for twin in twins:
        twin.communicate()
    return found


def main() -> int:
    """Print a row a pair."""
    if "--child" in sys.argv:
        child()
        return 0
    options = parser(__doc__ or "")
    options.add_argument("--pairs", type=int, default=12, help="pairs of processes, about 9 s each")
    options.add_argument("--rounds", type=int, default=20, help="of each mode")
    chosen = options.parse_args()
    data = head("Twins: two processes of one program")
    draw = random.Random(0)
    pairs = [offsets(chosen.rounds, draw) for _ in range(chosen.pairs)]
    shown = [
        {mode: (fmean(logs), stdev(logs) / math.sqrt(len(logs))) for mode, logs in pair.items()}
        for pair in pairs
    ]
    rows = [
        (str(at), *(f"{pair[mode][0]:+.1%} ± {pair[mode][1]:.1%}" for mode in MODES))
        for at, pair in enumerate(shown, start=1)
    ]
    spread = {mode: math.sqrt(fmean(pair[mode][0] ** 2 for pair in shown)) for mode in MODES}
    table(("pair", *MODES), [*rows, ("spread", *(f"{spread[mode]:.1%}" for mode in MODES))])
    write(chosen.json, {**data, "pairs": pairs})
    return 0


if __name__ == "__main__":
    sys.exit(main())
