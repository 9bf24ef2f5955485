"""Comparisons of known truth with real processes: a program against itself and against 3, 5, 10 % more work.

Asked for: a false word in at most 1 of 100 comparisons with itself; 5 % found in at least 95 of 100. Each
takes about 20 s, so that 100 of each take two hours and a half: leave it running on an idle machine. With
--json FILE each comparison is kept as it ends, and the next start goes on from there.

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

from _harness import Figures, option, run, table
from laptime.records.plan import BenchRequest
from laptime.verbs.bench import bench

FILE = Path(__file__).resolve().parent / "_planted.py"
PAIRS = {
    "itself": ("100", "100", 1.00),
    "3 % more": ("100", "103", 1.03),
    "5 % more": ("100", "105", 1.05),
    "10 % more": ("100", "110", 1.10),
    "3 % less": ("103", "100", 100 / 103),
}
WORDS = ("faster", "slower", "same", "unclear")
Found = dict[str, Any]


def compared(name: str, seed: int, budget: float | None = None) -> Found:
    """One comparison."""
    sides = [f"{FILE}:work_{percent}" for percent in PAIRS[name][:2]]
    if sides[0] == sides[1]:
        sides[1] = f"{FILE}:work_0{PAIRS[name][1]}"  # the same work under another name
    began = time.perf_counter()
    asked = BenchRequest(
        targets=sides, backends=["null"], seed=seed, save=False, timing_only=True, budget=budget
    )
    run = bench(asked)
    (found,) = run.comparisons
    return {
        "pair": name,
        "seed": seed,
        "word": found.word,
        "speedup": found.speedup,
        "ci95": list(found.ci95),
        "trust": run.trust,
        "wall": time.perf_counter() - began,
    }


def row(name: str, found: list[Found]) -> tuple[str, ...]:
    """A line of the table."""
    truth = 1 / PAIRS[name][2]
    words = Counter(each["word"] for each in found)
    covered = sum(each["ci95"][0] <= truth <= each["ci95"][1] for each in found)
    half = sum(each["ci95"][1] - each["ci95"][0] for each in found) / 2 / max(1, len(found))
    wall = sum(each["wall"] for each in found) / max(1, len(found))
    counts = (str(words[word]) for word in WORDS)
    return name, str(len(found)), *counts, f"{covered} of {len(found)}", f"{half:.2%}", f"{wall:.0f} s"


def main(asked: Namespace, data: Figures) -> int:
    """Make the comparisons that are missing; 1 when there are wrong words among 100 of a kind."""
    found = data.again("comparisons", [])
    end = time.monotonic() + 60 * asked.minutes
    made = {(each["pair"], each["seed"]) for each in found}
    for seed in range(asked.each):
        for name in asked.only or PAIRS:
            if (name, seed) not in made and time.monotonic() < end:
                found.append(compared(name, seed, asked.budget))
                data.keep()
                time.sleep(asked.pause)
    rows = {name: [each for each in found if each["pair"] == name] for name in PAIRS}
    table(
        ("against", "n", *WORDS, "covered", "half", "wall"),
        (row(name, each) for name, each in rows.items() if each),
    )
    wrong = sum(each["word"] in ("faster", "slower") for each in rows["itself"])
    return int(wrong > max(1, len(rows["itself"]) // 100))


if __name__ == "__main__":
    run(
        main,
        "Comparisons of known truth, real processes",
        option("--each", type=int, default=100, help="comparisons of each kind"),
        option("--minutes", type=float, default=float("inf"), help="stop after so many"),
        option("--only", action="append", choices=list(PAIRS), help="this kind alone; can be repeated"),
        option("--budget", type=float, help="seconds of each comparison, instead of the preset's"),
        option("--pause", type=float, default=0.0, help="seconds after each comparison"),
    )
