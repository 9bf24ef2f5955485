"""`--laptime-against-rev REV`: the tests at a git revision and here, measured in turns in fresh processes.

A pair is a pytest at the revision and one in the working tree, either first in turns. It is one value of each
test, so the interval holds what a machine does for minutes and what a process has for its life."""

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from laptime.analysis import compare
from laptime.analysis.evidence import select
from laptime.analysis.paired import from_pairs
from laptime.analysis.quantiles import median
from laptime.experiment.pairs import one_after_the_other
from laptime.kit.errors import UserCodeError
from laptime.launch.git_worktree import checked_out
from laptime.measure.metrics import LATENCY
from laptime.process.program import Process
from laptime.records.case import Case
from laptime.records.comparison import Comparison
from laptime.records.run import Run
from laptime.records.series import SHORTEST, Regime, Series
from laptime.verbs.bench.postprocess import without_invalid_winner

PAIRS = 6  # of processes. With five and more, Student's t at 99 % is below 5 standard errors.
Sides = tuple[Run, Run]


def pairs_of(
    revision: str, arguments: Sequence[str], *, budget: float, say: Callable[[str], None]
) -> list[Sides]:
    """Runs of the tests at the revision and here, pair by pair.
    arguments: of pytest, as the user gave them. budget: seconds of measuring a test, in all pairs together,
    on either side. say: tells what is going on.
    Raises UsageError: git knows no such revision. UserCodeError: one of the pytests measured nothing."""
    pairs = []
    with checked_out(revision) as there, tempfile.TemporaryDirectory(prefix="laptime-turns-") as folder:
        path = there.python_path(os.environ.get("PYTHONPATH", ""))
        here = ("the working tree", Path.cwd(), dict[str, str]())
        sides = ((revision, there.folder, {"PYTHONPATH": path}), here)
        one = partial(_measure, arguments=arguments, budget=budget / PAIRS, folder=Path(folder))
        for number in range(PAIRS):
            say(f"laptime: measuring {revision} and the working tree in turns, pair {number + 1} of {PAIRS}")
            pairs.append(one_after_the_other(number, lambda at: one(*sides[at])))
    return pairs


def _measure(
    name: str, place: Path, environ: Mapping[str, str], arguments: Sequence[str], budget: float, folder: Path
) -> Run:
    file = folder / "side.json"
    file.unlink(missing_ok=True)
    own = ["--laptime-side", str(file), "--laptime-budget", f"{budget:.3g}", "-p", "no:cacheprovider"]
    program = Process(
        [sys.executable, "-m", "pytest", *arguments, *own],
        cwd=place,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        text = program.communicate()[0].decode(errors="replace")
    finally:
        program.end()
    if not file.exists():
        lines = [line for line in text.splitlines() if line.strip()] or ["it wrote nothing"]
        raise UserCodeError(
            f"the tests at {name} measured nothing", why=lines[-1], next=f"run these tests at {name} alone"
        )
    return msgspec.json.decode(file.read_bytes(), type=Run)


def compare_tests(pairs: Sequence[Sides]) -> list[Comparison]:
    """Every test that both sides have in all pairs, the revision as its baseline."""
    first = [{case.key: case for case in run.cases} for pair in pairs for run in pair]
    shared = [key for key in first[-1] if all(any(_latency(cases.get(key)).samples) for cases in first)]
    both = list(zip(first[::2], first[1::2], strict=True))
    return [_compare([(before[key], now[key]) for before, now in both]) for key in shared]


def _compare(pairs: Sequence[tuple[Case, Case]]) -> Comparison:
    sides = [[_latency(case) for case in pair] for pair in pairs]
    is_busy = any(compare.is_crowded(*pair) for pair in sides)
    logs = [_level(now, is_busy) - _level(before, is_busy) for before, now in sides]
    found = compare.describe(*pairs[-1], Regime.ISOLATED, replace(from_pairs(logs), is_of_fastest=is_busy))
    return without_invalid_winner(found, *(case for pair in pairs for case in pair))


def _latency(case: Case | None) -> Series:
    return (case.find("latency", Regime.ISOLATED) if case else None) or Series(metric=LATENCY, samples=[])


def _level(series: Series, is_busy: bool) -> float:
    """Log seconds of a call: the median of the samples that count, on a busy machine of the fastest calls."""
    levels = compare.fastest(series).values()
    return min(levels) if is_busy and levels else math.log(max(SHORTEST, median(select(series).values)))
