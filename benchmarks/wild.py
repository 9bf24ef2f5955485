"""Does `laptime tune` take from public training loops what somebody who knows takes by hand?

Each script of examples/wild/ is tuned as its user would start it, in a repository of its own; then the
script as it is, as the tuner's patch makes it, and with the fix by hand (examples/wild/by_hand/) run side by
side: each in a process of its own, in random order in every round. Asked: at least 90 % of the gain by hand
on 10 of 12, and no claim whose interval misses what was measured. Two more scripts need libraries. With
--json FILE a second start goes on where the first was stopped.

python benchmarks/wild.py                              all of them, 84 minutes of sessions and 25 of timing
python benchmarks/wild.py --only nanogpt --budget 2m   one
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from _forked import timed
from _harness import Figures, option, run, shown, table

WILD = Path(__file__).resolve().parent.parent / "examples" / "wild"
NAMES = sorted(path.stem for path in WILD.glob("*.py"))
LIBRARIES = {"hf_trainer": ("transformers", "accelerate"), "lightning_fit": ("lightning",)}
"""What a script needs beside torch and torchvision."""
SETTLE, STEPS = 6, 10
SHARE, WORTH = 0.9, 1.03
"""Share of the gain by hand that should be taken; gain by hand below which there is nothing to share."""
ENOUGH = 10 / 12


def repository(folder: Path, name: str) -> Path:
    """A repository whose subfolder has the script; the script."""
    place = folder / "examples" / "wild"
    place.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return Path(shutil.copy(WILD / f"{name}.py", place))


def tuned(script: Path, folder: Path, budget: str) -> dict[str, Any]:
    """What `laptime tune --json` says, started in the root of the repository."""
    words = ["--budget", budget, "--json", str(script.relative_to(folder))]
    home = {**os.environ, "LAPTIME_HOME": str(folder / ".home")}
    command = [sys.executable, "-m", "laptime", "tune", *words]
    ended = subprocess.run(command, cwd=folder, env=home, capture_output=True, text=True, check=False)
    try:
        said: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        return {"outcome": f"status {ended.returncode}", "error": ended.stderr[-2000:]}
    return said


def applied(name: str, diff: str, folder: Path) -> Path | None:
    """The script with a diff applied from the root; None where it does not apply."""
    if not diff.strip():
        return None
    script = repository(folder, name)
    done = subprocess.run(["git", "apply", "-"], cwd=folder, input=diff, text=True, check=False)
    return script if done.returncode == 0 else None


def judged(name: str, budget: str, rounds: int) -> dict[str, Any]:
    """One script: the session, and seconds of a step of every side, a dictionary for each round."""
    with tempfile.TemporaryDirectory(prefix="laptime-wild-") as work:
        folder = Path(work)
        script = repository(folder / "session", name)
        said = tuned(script, folder / "session", budget)
        by_hand = (WILD / "by_hand" / f"{name}.patch").read_text()
        diffs = {"tuner": said.get("patch", {}).get("text", ""), "by hand": by_hand}
        edited = {side: applied(name, diff, folder / side.replace(" ", "_")) for side, diff in diffs.items()}
        sides = {"as it is": script, **{side: path for side, path in edited.items() if path is not None}}
        order, measured = random.Random(name), []
        for _ in range(rounds):
            names = order.sample(sorted(sides), len(sides))
            run = {
                side: timed(sides[side], settle=SETTLE, steps=STEPS, folder=folder / "run").wall
                for side in names
            }
            measured.append(run)
    kept = ("outcome", "recipe", "speedup", "seconds", "seconds_by", "ladder", "patch", "error")
    return {"name": name, "rounds": measured, **{field: said.get(field) for field in kept}}


def gains(found: dict[str, Any], side: str) -> list[float]:
    """Time of the script as it is over that of a side, round by round; one where it changed nothing."""
    return [each["as it is"] / each.get(side, each["as it is"]) for each in found["rounds"]]


def share(found: dict[str, Any]) -> float:
    """What the tuner gains over what the fix by hand gains, speedups less one; one where that is nothing."""
    by_hand, by_tuner = median(gains(found, "by hand")), median(gains(found, "tuner"))
    if by_hand < WORTH:
        return 1.0 if by_tuner > 1 / WORTH else 0.0
    return (by_tuner - 1) / (by_hand - 1)


def row(found: dict[str, Any]) -> list[str]:
    """A line of the table."""
    claim = found["speedup"] or {}
    claimed = f"{claim['value']:.2f} {[round(end, 2) for end in claim['ci95'] or ()]}" if claim else "-"
    sides = [shown(gains(found, side), factor=1, unit="x") for side in ("tuner", "by hand")]
    step = shown([each["as it is"] for each in found["rounds"]], factor=1e3, unit="ms", digits=0)
    changes = ", ".join(f"`{change['name']}`" for change in found["recipe"] or ()) or found["outcome"]
    return [
        found["name"],
        step,
        changes,
        claimed,
        *sides,
        f"{share(found):.0%}",
        f"{found['seconds'] or 0:.0f} s",
    ]


def main(asked: Namespace, data: Figures) -> int:
    """Tune, measure, print; 1 where the tuner takes too little on too many."""
    data |= {"budget": asked.budget}
    data.again("found", {})
    for name in asked.only:
        missing = [library for library in LIBRARIES.get(name, ()) if find_spec(library) is None]
        if missing:
            print(f"{name}: skipped, {' and '.join(missing)} not installed", file=sys.stderr, flush=True)
        elif name not in data["found"]:
            data["found"][name] = judged(name, asked.budget, asked.rounds)
            data.keep()
            print(f"{name}: {data['found'][name]['outcome']}", file=sys.stderr, flush=True)
    found = list(data["found"].values())
    columns = ("script", "step", "what was kept", "claimed", "true gain", "by hand", "share", "session")
    table(columns, (row(each) for each in found))
    taken = sum(share(each) >= SHARE for each in found)
    print(f"\n{taken} of {len(found)} take {SHARE:.0%} of the gain by hand or more")
    return int(taken < ENOUGH * len(found))


if __name__ == "__main__":
    run(
        main,
        "Public training loops",
        option("--only", nargs="+", default=NAMES, choices=NAMES, metavar="NAME"),
        option("--budget", default="6m", help="of each session (6m)"),
        option("--rounds", type=int, default=6, help="side by side; six make an interval (6)"),
    )
