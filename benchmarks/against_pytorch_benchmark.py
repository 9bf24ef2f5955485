"""laptime against pytorch-benchmark 0.3.6: EfficientNet-B0 at batch 1 and 8 on the CPU, whole commands.

torch.utils.benchmark's `blocked_autorange` is timed in the same rounds, as the loop of a careful user.

Asked for: at most half the wall time; and headlines within 1.05x of each other, or the verdict says noisy and
the interval covers the median of the quiet runs. Quiet, and with --burn beside
a program that burns one core on and off in random bursts of 0.2 to 2 s.

It needs an interpreter that has the other tool (which needs setuptools for distutils, before Python 3.12):

    python3.11 -m venv theirs
    theirs/bin/pip install pytorch-benchmark torchvision "setuptools<81"
    python benchmarks/against_pytorch_benchmark.py --their-python theirs/bin/python --json against.json
    python benchmarks/against_pytorch_benchmark.py --their-python theirs/bin/python --json against.json --burn

Every round is added to the JSON file as it ends; started again with the same file, it goes on where it was.
Both interpreters should have the same torch; the table names the versions.

    headline   theirs: seconds_per_batch_mean; ours: latency/isolated/median
    spread     largest over smallest headline of all runs
    covered    our runs whose interval holds the median of our quiet runs (of all runs, when none was quiet)
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from _harness import head, neighbour, parser, shown, table, where, write
from laptime.kit.text import count

HERE = Path(__file__).resolve().parent
TARGET = "torchvision:efficientnet_b0"
TIMEOUT = 1800.0  # seconds of one command; a machine that crawls must not hold the rest
Round = dict[str, Any]


def theirs(python: str, script: str, *arguments: int) -> Round:
    """One whole command of another tool: a script beside this one, which prints its figures as JSON."""
    started = time.perf_counter()
    done = subprocess.run(
        [python, str(HERE / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    wall = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"error: {python} could not run {script}\n{done.stderr[-2000:]}")
    return {"wall": wall, **json.loads(done.stdout.splitlines()[-1])}


def ours(batch: int) -> Round:
    """One whole command of laptime, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["laptime", "bench", TARGET, "--batch", f"1,{batch}", "--json", "-o", "report.html"]
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", *command],
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=TIMEOUT,
        )
        wall = time.perf_counter() - started
        if not (Path(folder) / "report.html").is_file():
            raise SystemExit(f"error: laptime wrote no report\n{done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    found: Round = {"wall": wall, "exit": done.returncode, "verdict": report["verdict"], "cases": {}}
    found["torch"] = report["environment"]["libraries"].get("torch")
    for case in report["cases"]:
        median = case["metrics"]["latency/isolated/median"]
        found["cases"][str(case["axes"]["batch"])] = {
            "value": median["value"],
            "ci95": median["ci95"],
            "n": median["n"],
            "verdict": case["verdict"],
            "reasons": [reason["sentence"] for reason in case["reasons"]],
        }
    return found


def measured(asked: argparse.Namespace, data: dict[str, Any]) -> None:
    """Measure the rounds that are missing; each is written as it ends."""
    have = sum(each["burn"] == asked.burn for each in data["rounds"])
    with neighbour(asked.burn, asked.seed + have):
        for number in range(have, asked.rounds):
            each: Round = {"burn": asked.burn, "where": where()}
            tools = [
                ("theirs", lambda: theirs(asked.their_python, "_theirs.py", asked.batch, asked.num_runs)),
                ("timer", lambda: theirs(sys.executable, "_timer.py", asked.batch)),
                ("ours", lambda: ours(asked.batch)),
            ]
            random.Random(asked.seed + number).shuffle(tools)
            for name, run in tools:
                each[name] = run()
            time.sleep(asked.pause)
            data["rounds"].append(each)
            write(asked.json, data)
            times = f"theirs {each['theirs']['wall']:.1f} s, ours {each['ours']['wall']:.1f} s"
            print(f"round {number + 1} of {asked.rounds}: {times}", file=sys.stderr, flush=True)


def spread(values: list[float]) -> float:
    """Largest over smallest."""
    return max(values) / min(values)


def covered(rounds: list[Round], batch: str, truth: float) -> list[bool]:
    """Whether each of our intervals holds the truth; no interval holds nothing."""
    found = []
    for each in rounds:
        ends = each["ours"]["cases"][batch]["ci95"]
        found.append(ends is not None and ends[0] <= truth <= ends[1])
    return found


def tables(rounds: list[Round], quiet: list[Round], name: str) -> None:
    """Wall time, and headline by batch size."""
    their, our = ([each[tool]["wall"] for each in rounds] for tool in ("theirs", "ours"))
    ratio = [b / a for a, b in zip(their, our, strict=True)]
    print(f"\n{name}, {count(len(rounds), 'round')}\n")
    values = (
        shown(their, factor=1, unit="s", digits=1),
        shown(our, factor=1, unit="s", digits=1),
        shown(ratio, factor=1, unit=""),
    )
    table(("", "theirs", "ours", "ours / theirs, asked 0.50"), [("wall time", *values)])
    print()
    columns = (
        "batch",
        "theirs, spread",
        "torch.utils.benchmark, spread",
        "ours, spread",
        "trusted ones alone, asked 1.05x",
        "covered",
        "of noisy ones",
    )
    rows = []
    for batch in rounds[0]["ours"]["cases"]:
        a = [each["theirs"]["seconds"][batch] for each in rounds]
        cases = [each["ours"]["cases"][batch] for each in rounds]
        b = [case["value"] for case in cases]
        truth = statistics.median(each["ours"]["cases"][batch]["value"] for each in quiet)
        holds = covered(rounds, batch, truth)
        noisy = [held for held, case in zip(holds, cases, strict=True) if case["verdict"] != "trusted"]
        trusted = [case["value"] for case in cases if case["verdict"] == "trusted"]
        timer = [each["timer"]["seconds"][batch] for each in rounds]
        rows.append(
            (
                batch,
                *(f"{statistics.median(each) * 1e3:.1f} ms, {spread(each):.2f}x" for each in (a, timer, b)),
                f"{spread(trusted):.2f}x of {len(trusted)}" if trusted else "none",
                f"{sum(holds)} of {len(holds)}",
                f"{sum(noisy)} of {len(noisy)}",
            )
        )
    table(columns, rows)
    verdicts = Counter(case["verdict"] for each in rounds for case in each["ours"]["cases"].values())
    print(f"\nour verdicts: {', '.join(f'{word} {n}' for word, n in sorted(verdicts.items()))}")
    versions = {(each["theirs"]["torch"], each["ours"]["torch"]) for each in rounds}
    print("torch: " + "; ".join(f"theirs {a}, ours {b}" for a, b in sorted(versions)))


def main() -> int:
    """Measure what is missing, print the tables."""
    options = parser(__doc__ or "")
    options.add_argument("--their-python", metavar="PATH", help="interpreter that has pytorch-benchmark")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--batch", type=int, default=8, help="the batch size beside 1")
    options.add_argument("--num-runs", type=int, default=100, help="theirs; ours stops by itself")
    options.add_argument("--pause", type=float, default=0.0, metavar="S", help="seconds between rounds")
    options.add_argument("--burn", action="store_true", help="beside a busy neighbour")
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    if asked.their_python is None:
        print("skipped: it needs --their-python PATH; how to make one:\n")
        print((__doc__ or "").split("\n\n")[3])
        return 0
    settings = {"batch": asked.batch, "num_runs": asked.num_runs}
    data: dict[str, Any] = {"settings": settings, "rounds": []}
    if asked.json is not None and asked.json.is_file():
        data = json.loads(asked.json.read_text())
        if data["settings"] != settings:
            print(f"error: {asked.json} holds rounds with {data['settings']}", file=sys.stderr)
            return 2
    head("laptime against pytorch-benchmark")
    try:
        measured(asked, data)
    except KeyboardInterrupt:
        print("stopped: the rounds that ended are kept", file=sys.stderr)
    quiet = [each for each in data["rounds"] if not each["burn"]]
    loud = [each for each in data["rounds"] if each["burn"]]
    for rounds, name in ((quiet, "Quiet"), (loud, "Beside a busy neighbour")):
        if rounds:
            tables(rounds, quiet or loud, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
