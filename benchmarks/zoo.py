"""Programs of known truth: is what laptime calls `trusted` true, and is what is true called `trusted`?

On a simulated machine, which runs the real engine and whose minutes take milliseconds; with --real N also N
times each on this machine, where the program's own clock is the truth of the very run.

    covered    intervals of trusted runs (median, p90, p95, p99, mean, throughput) that hold the truth
    wrong      trusted, though the median or the throughput is more than 5 % off and outside its interval
    noisy      not trusted; `for no reason` where nothing disturbed it and its intervals were narrow enough
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np

from _harness import Figures, option, run, table
from fixtures.runs import environment
from fixtures.zoo.programs import PROGRAMS, Truth, truth, truth_of
from fixtures.zoo.score import Answer, Row, answer, request, row, simulated
from laptime.probes import machine
from laptime.verbs.bench import bench

REAL = Path(__file__).resolve().parent.parent / "tests/fixtures/zoo/real.py"
COLUMNS = (
    "program",
    "truth: median",
    "p95",
    "throughput",
    "laptime: median",
    "p95",
    "throughput",
    "runs",
    "trusted",
    "covered",
    "wrong",
    "noisy for no reason",
    "disturbed",
)


def on_this_machine(name: str, seed: int) -> tuple[Answer, Truth]:
    """One run beside what the program's own clock says of it; a model's time is that of a plain call."""
    if PROGRAMS[name].model:
        known = truth(PROGRAMS[name])
        return answer(bench(request(PROGRAMS[name], f"{REAL}:{name}", seed=seed)), known), known
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "times"
        os.environ["ZOO_TIMES"] = str(file)
        run = bench(request(PROGRAMS[name], f"{REAL}:{name}", seed=seed))
        times = np.fromfile(file)
    known = truth_of(times[1 + PROGRAMS[name].warm_up :])
    return answer(run, known), known


def line(found: Row) -> tuple[str, ...]:
    """A row of the table; times in milliseconds."""

    def milliseconds(values: dict[str, float], name: str) -> str:
        return f"{values[name] * 1e3:.4g}" if name in values else "-"

    true, told = found.truth.latency, found.example.values
    return (
        f"`{found.name}`",
        milliseconds(true, "median"),
        milliseconds(true, "p95"),
        f"{found.truth.throughput:.4g}/s",
        milliseconds(told, "median"),
        milliseconds(told, "p95"),
        f"{told['throughput']:.4g}/s" if "throughput" in told else "-",
        str(found.runs),
        str(found.trusted),
        f"{found.covered} of {found.intervals}",
        str(found.wrongly_trusted),
        str(found.wrongly_noisy),
        f"{found.disturbed:.0%}",
    )


def total(rows: list[Row]) -> str:
    """The promises over all rows."""
    trusted, runs = sum(each.trusted for each in rows), sum(each.runs for each in rows)
    covered, intervals = sum(each.covered for each in rows), sum(each.intervals for each in rows)
    wrong, noisy = sum(each.wrongly_trusted for each in rows), sum(each.wrongly_noisy for each in rows)
    parts = (
        f"covered {covered} of {intervals} ({covered / max(1, intervals):.1%})",
        f"wrong {wrong} of {trusted} trusted ({wrong / max(1, trusted):.1%})",
        f"noisy for no reason {noisy} of {runs} ({noisy / max(1, runs):.1%})",
    )
    return f"\n{', '.join(parts)}\n"


def main(asked: Namespace, data: Figures) -> int:
    """Print the tables."""
    names = asked.names or list(PROGRAMS)
    data |= {"simulated": [], "real": []}

    def scored(kind: str, rows: Iterable[Row]) -> Iterator[tuple[str, ...]]:
        for found in rows:
            kept[kind].append(found)
            data[kind].append(
                found._asdict() | {"truth": found.truth._asdict(), "example": found.example._asdict()}
            )
            yield line(found)

    def on_simulated() -> Iterator[Row]:
        for name in names:
            known = truth(PROGRAMS[name])
            yield row(name, [simulated(name, seed, known) for seed in range(asked.runs)], known)

    def on_real() -> Iterator[Row]:
        for name in names:
            if PROGRAMS[name].rate is None and not PROGRAMS[name].outside:
                pairs = [on_this_machine(name, seed) for seed in range(asked.real)]
                yield row(name, [found for found, _ in pairs], pairs[0][1], real=True)

    kept: dict[str, list[Row]] = {"simulated": [], "real": []}
    with patch.object(machine, "environment", environment):
        table(COLUMNS, scored("simulated", on_simulated()))
    print(total(kept["simulated"]))
    if asked.real:
        table(COLUMNS, scored("real", on_real()))
        print(total(kept["real"]))
    return 0


if __name__ == "__main__":
    run(
        main,
        "Programs of known truth",
        option("--runs", type=int, default=100, help="simulated runs of each program"),
        option("--real", type=int, default=0, metavar="N", help="runs of each on this machine"),
        option("names", nargs="*", help="only these programs"),
    )
