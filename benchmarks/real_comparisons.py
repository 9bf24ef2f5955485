"""Comparisons of known truth with real processes: a program against itself and against 3, 5, 10 % more work.

Asked for: a false word in at most 1 of 100 comparisons with itself; 5 % found in at least 90 of 100, 10 % in
99; beside a program that burns one core on and off (--burner) 5 % in 70. Each takes 20 to 60 s, so that 100
of each take hours. With --json FILE each comparison is kept as it ends, and the next start goes on there.

    covered    comparisons whose 95 % interval of the ratio holds the true one
    half       mean half-width of that interval
    clear      comparisons with a word other than `unclear`
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

from _harness import Figures, neighbour, option, run, table
from laptime.records.plan import BenchRequest
from laptime.verbs.bench import bench

FILE = Path(__file__).resolve().parent / "_planted.py"
PAIRS = {
    "itself": (100, 100),
    "3 % more": (100, 103),
    "5 % more": (100, 105),
    "10 % more": (100, 110),
    "3 % less": (103, 100),
}
LENGTHS = {"2 ms": 1, "20 ms": 9, "0.3 s": 130}
"""Times so many: calls of about this length."""
WORDS = ("faster", "slower", "same", "unclear")
Found = dict[str, Any]


def compared(name: str, length: str, seed: int, budget: float | None) -> Found:
    """One comparison."""
    baseline, candidate = (LENGTHS[length] * each for each in PAIRS[name])
    same = "0" if baseline == candidate else ""  # the same work under another name
    sides = [f"{FILE}:work_{baseline}", f"{FILE}:work_{same}{candidate}"]
    began = time.perf_counter()
    asked = BenchRequest(
        targets=sides, backends=["null"], seed=seed, save=False, timing_only=True, budget=budget
    )
    run = bench(asked)
    (found,) = run.comparisons
    return {
        "pair": name,
        "length": length,
        "seed": seed,
        "word": found.word,
        "speedup": found.speedup,
        "ci95": list(found.ci95),
        "processes": found.processes,
        "trust": run.trust,
        "wall": time.perf_counter() - began,
    }


def row(name: str, length: str, found: list[Found]) -> tuple[str, ...]:
    """A line of the table."""
    truth = PAIRS[name][0] / PAIRS[name][1]
    words = Counter(each["word"] for each in found)
    covered = sum(each["ci95"][0] <= truth <= each["ci95"][1] for each in found)
    half = sum(each["ci95"][1] - each["ci95"][0] for each in found) / 2 / max(1, len(found))
    wall = sum(each["wall"] for each in found) / max(1, len(found))
    counts = (str(words[word]) for word in WORDS)
    return (
        name,
        length,
        str(len(found)),
        *counts,
        f"{covered} of {len(found)}",
        f"{half:.2%}",
        f"{wall:.0f} s",
    )


def main(asked: Namespace, data: Figures) -> int:
    """Make the comparisons that are missing; 1 when there are wrong words among 100 of a kind."""
    found = data.again("comparisons", [])
    end = time.monotonic() + 60 * asked.minutes
    made = {(each["pair"], each["length"], each["seed"]) for each in found}
    kinds = [(name, length) for length in asked.length or LENGTHS for name in asked.only or PAIRS]
    for seed in range(asked.each):
        for name, length in kinds:
            if (name, length, seed) not in made and time.monotonic() < end:
                with neighbour(asked.burner, seed):
                    found.append(compared(name, length, seed, asked.budget))
                data.keep()
                time.sleep(asked.pause)
    rows = {kind: [each for each in found if (each["pair"], each["length"]) == kind] for kind in kinds}
    table(
        ("against", "calls", "n", *WORDS, "covered", "half", "wall"),
        (row(*kind, each) for kind, each in rows.items() if each),
    )
    equal = [each for each in found if each["pair"] == "itself"]
    wrong = sum(each["word"] in ("faster", "slower") for each in equal)
    return int(wrong > max(1, len(equal) // 100))


if __name__ == "__main__":
    run(
        main,
        "Comparisons of known truth, real processes",
        option("--each", type=int, default=100, help="comparisons of each kind"),
        option("--minutes", type=float, default=float("inf"), help="stop after so many"),
        option("--only", action="append", choices=list(PAIRS), help="this kind alone; can be repeated"),
        option("--length", action="append", choices=list(LENGTHS), help="such calls alone; can be repeated"),
        option("--burner", action="store_true", help="beside a program that burns a core on and off"),
        option("--budget", type=float, help="seconds of each comparison, instead of the preset's"),
        option("--pause", type=float, default=0.0, help="seconds after each comparison"),
    )
