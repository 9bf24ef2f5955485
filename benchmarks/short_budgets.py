"""How long does `laptime bench --budget 3s` take in all, of calls of microseconds?

Asked for: 5 s, from start to end of the command. Programs are measured in fresh processes, in turns. Beside
it stands how long a bare interpreter takes to import PyTorch, a part of that, and the machine's load.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path

from _harness import Figures, median, option, run, shown, table

PROGRAM = """
import torch
from torch import nn
def two_us(): return (lambda x: x + 1), torch.zeros(4)
def six_us(): return nn.Linear(16, 16), torch.zeros(4, 16)
def twenty_us(): return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)), torch.zeros(4, 64)
"""
NAMES = ("two_us", "six_us", "twenty_us")
LIMIT = 5.0
IMPORT = "import torch"


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when a median is above the limit."""
    took: dict[str, list[float]] = {name: [] for name in (IMPORT, *NAMES)}
    loads = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "short.py"
        file.write_text(PROGRAM)
        environ = os.environ | {"LAPTIME_HOME": folder}
        for _ in range(asked.rounds):
            for name, times in took.items():
                words = ["-c", IMPORT]
                if name != IMPORT:
                    words = ["-m", "laptime", "bench", f"{file}:{name}", "--budget", "3s"]
                began = time.perf_counter()
                subprocess.run([sys.executable, *words], env=environ, capture_output=True, check=False)
                times.append(time.perf_counter() - began)
                loads.append(os.getloadavg()[0])
    rows = [(f"`{name}`", shown(times, factor=1, unit="s", digits=1)) for name, times in took.items()]
    table(("program", f"median of {asked.rounds}"), rows)
    print(f"\nload {min(loads):.1f} to {max(loads):.1f}")
    data |= {"seconds": took, "load": loads}
    return int(any(median(took[name])[0] > LIMIT for name in NAMES))


if __name__ == "__main__":
    run(main, "Short budgets", option("--rounds", type=int, default=7))
