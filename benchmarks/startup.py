"""How long does laptime take to start? `laptime --help` and `import laptime` against a bare interpreter.

Asked for: help within 150 ms of the bare interpreter, the import under 60 ms over it. Interleaved rounds of
fresh processes, each round in another order.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from argparse import Namespace

from _harness import Figures, median, option, run, shown, table

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import laptime'": ["-c", "import laptime"],
    "laptime --help": ["-m", "laptime", "--help"],
}
LIMITS = {"python -c 'import laptime'": 0.060, "laptime --help": 0.150}


def seconds(arguments: list[str]) -> float:
    """Wall time of one fresh interpreter."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when a limit is passed."""
    for arguments in COMMANDS.values():
        seconds(arguments)  # bytecode and file cache
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    order = list(COMMANDS)
    shuffle = random.Random(0)
    for _ in range(asked.rounds):
        shuffle.shuffle(order)
        for name in order:
            times[name].append(seconds(COMMANDS[name]))
    bare = times["python -c pass"]
    # Differences within a round: neighbours in time share the state of the machine.
    over = {name: [a - b for a, b in zip(taken, bare, strict=True)] for name, taken in times.items()}
    rows = [
        (
            f"`{name}`",
            shown(taken, factor=1e3, unit="ms", digits=0),
            shown(over[name], factor=1e3, unit="ms", digits=0) if name in LIMITS else "-",
            f"{LIMITS[name] * 1e3:.0f} ms" if name in LIMITS else "-",
        )
        for name, taken in times.items()
    ]
    table(("command", f"median of {asked.rounds}", "over the bare interpreter", "limit"), rows)
    data |= {"seconds": times, "limits": LIMITS}
    return int(any(median(over[name])[0] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    run(main, "Start-up", option("--rounds", type=int, default=21))
