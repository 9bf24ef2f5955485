"""How long does laptime take to start? `laptime --help` and `import laptime` against a bare interpreter.

Asked for: help within 150 ms of the bare interpreter, the import under 60 ms. Interleaved rounds of fresh
processes; medians.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 21
COMMANDS = {
    "bare interpreter": ["-c", "pass"],
    "import laptime": ["-c", "import laptime"],
    "laptime --help": ["-m", "laptime", "--help"],
}
LIMITS = {"import laptime": 0.060, "laptime --help": 0.150}


def seconds(arguments: list[str]) -> float:
    """Wall time of one fresh interpreter."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> int:
    """Print the table; 1 when a limit is passed."""
    for arguments in COMMANDS.values():
        seconds(arguments)  # bytecode and file cache
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    bare = times["bare interpreter"]
    print(f"| command | median of {ROUNDS} | over a bare interpreter | limit |\n| --- | --- | --- | --- |")
    slow = False
    for name, taken in times.items():
        # Differences within a round: neighbours in time share the state of the machine.
        over = statistics.median(a - b for a, b in zip(taken, bare, strict=True))
        limit = LIMITS.get(name)
        slow |= limit is not None and over > limit
        shown = f"{limit * 1e3:.0f} ms" if limit else "-"
        print(f"| {name} | {statistics.median(taken) * 1e3:.0f} ms | {over * 1e3:.0f} ms | {shown} |")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
