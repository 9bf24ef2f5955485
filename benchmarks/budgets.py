"""Do sessions of `laptime tune` end within their budget, use it, and keep something early?

Scripts of examples/wild/, each in a repository of its own, and models, each tuned as its user would start it.
Wall seconds are those of the whole process, from its start to its end. The first kept change is timed by the
line that the session prints for it. With --json FILE a second start goes on where the first was stopped.

python benchmarks/budgets.py                                        26 minutes
python benchmarks/budgets.py --only mnist --budgets 60 90           two sessions
python benchmarks/budgets.py --only torchvision:resnet18            a model, which needs torchvision
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from _harness import Figures, option, run, table

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NAMES = ("mnist", "nanogpt", "siamese", "torchvision:resnet18")
BUDGETS = (60, 90, 150)
FIELDS = (
    *("outcome", "sentence", "ended", "why_ended", "shortfall", "seconds", "seconds_by"),
    *("recipe", "speedup"),
)
"""Keys of the session's document that are kept."""


def subject(name: str, folder: Path) -> str:
    """What is tuned: a model by its name, a script as a copy in a repository."""
    if ":" in name:
        return name
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    places = (EXAMPLES / "wild" / f"{name}.py", EXAMPLES / f"{name}.py")
    return Path(shutil.copy(next(place for place in places if place.is_file()), folder)).name


def session(name: str, budget: int) -> dict[str, Any]:
    """One session: wall seconds, those until its first kept change, and what it says."""
    with tempfile.TemporaryDirectory(prefix="laptime-budgets-") as work:
        folder = Path(work)
        words = ["tune", "--budget", f"{budget}s", "--json", subject(name, folder)]
        began = time.monotonic()
        running = subprocess.Popen(
            [sys.executable, "-m", "laptime", *words],
            cwd=folder,
            env={**os.environ, "LAPTIME_HOME": str(folder / ".home"), "PYTHONUNBUFFERED": "1"},
            stdout=(folder / "said.json").open("w"),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert running.stderr is not None
        lines = [(round(time.monotonic() - began, 1), line.rstrip()) for line in running.stderr]
        status = running.wait()
        wall = time.monotonic() - began
        try:
            said: dict[str, Any] = json.loads((folder / "said.json").read_text())
        except ValueError:
            said = {}
    fields = {field: said.get(field) for field in FIELDS}
    return {"name": name, "budget": budget, "wall": wall, "status": status, "lines": lines, **fields}


def first_kept(found: dict[str, Any]) -> str:
    """When the line of the first kept change came."""
    return next((f"{at:.0f} s" for at, line in found["lines"] if ", kept" in line), "-")


def row(found: dict[str, Any]) -> list[str]:
    """A line of the table."""
    # Sessions of older versions have neither.
    claim, lacked = found["speedup"], (found.get("shortfall") or {}).get("sentence") or found.get("why_ended")
    gained = f", {claim['value']:.2f}x" if claim else ""
    return [
        found["name"],
        f"{found['budget']} s",
        f"{found['wall']:.0f} s",
        first_kept(found),
        f"{found['outcome']}{gained}",
        lacked or "",
    ]


def main(asked: Namespace, data: Figures) -> int:
    """Tune, measure, print; 1 where a session took more than its budget by a tenth."""
    data.again("found", {})
    for name in asked.only:
        for budget in asked.budgets:
            key = f"{name} {budget}"
            if key not in data["found"]:
                data["found"][key] = session(name, budget)
                data.keep()
                print(key, data["found"][key]["wall"], file=sys.stderr, flush=True)
    found = list(data["found"].values())
    table(("what", "budget", "took", "first kept", "outcome", "what it says"), (row(each) for each in found))
    return int(any(each["wall"] > 1.1 * each["budget"] for each in found))


if __name__ == "__main__":
    run(
        main,
        "Budgets of sessions",
        option("--only", nargs="+", default=NAMES, metavar="NAME"),
        option("--budgets", nargs="+", type=int, default=BUDGETS, metavar="SECONDS"),
    )
