"""How fast is `laptime trace big.json -o big.html`, beside the tools it replaces, and how does cost grow?

Asked for: a 515 MB trace (1.2 M events) within 5 s and 500 MB, a 100 MB one within 1.5 s, linear growth.
Every run is a whole fresh process with its children. Memory is the highest sum of resident memory of all of
them, looked at every 10 ms. The floor is a typed decode of the same bytes that keeps nothing.

The older tools need an interpreter of their own each; without one they are left out:
    python -m venv tb  && tb/bin/pip install torch-tb-profiler==0.4.3 "setuptools<81" "numpy<2" "pandas<2.3"
    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis "pandas<3" "numpy<2.3"
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from _grow import grow
from _shown import head, parser, table, write

HERE = Path(__file__).parent
SAMPLE = HERE.parents[1] / "shared" / "data" / "traces" / "resnet50_num_workers_0.json.gz"
# An installed package has its bytecode; the first run, which is not counted, writes it.
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
FLOOR = """
import re, sys
from laptime.trace import _stream
cut = _stream.Cut(open(sys.argv[1], "rb").read)
print(sum(len(events) for events in cut.events()))
"""


class Taken:
    """One whole process with its children: seconds of wall time, bytes of memory, whether it ended well."""

    def __init__(self, command: list[str]) -> None:
        self.peak = 0
        started = time.perf_counter()
        process = subprocess.Popen(command, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        watcher = threading.Thread(target=self._watch, args=(process.pid,), daemon=True)
        watcher.start()
        _, errors = process.communicate()
        self.seconds = time.perf_counter() - started
        self.ok = process.returncode == 0
        self.error = errors.decode(errors="replace").strip().splitlines()[-1:] if not self.ok else []
        watcher.join()

    def _watch(self, pid: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(pid)
            while top.is_running() and top.status() != psutil.STATUS_ZOMBIE:
                total = 0
                for each in [top, *top.children(recursive=True)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        total += each.memory_info().rss
                self.peak = max(self.peak, total)
                time.sleep(0.01)


def commands(asked: Any, trace: Path, page: Path) -> dict[str, list[str]]:
    """What is run on one file, by name."""
    found = {
        "laptime": [sys.executable, "-m", "laptime", "trace", str(trace), "-o", str(page), "--no-save", "-q"],
        "floor": [sys.executable, "-c", FLOOR, str(trace)],
    }
    if asked.tb:
        found["torch-tb-profiler"] = [str(asked.tb), str(HERE / "_their_traces.py"), "tb", str(trace)]
    if asked.hta:
        found["HolisticTraceAnalysis"] = [str(asked.hta), str(HERE / "_their_traces.py"), "hta", str(trace)]
    return found


def main() -> int:
    """Print the table; 1 when a limit is passed."""
    options = parser(__doc__ or "")
    options.add_argument("--source", type=Path, default=SAMPLE, help="the small trace that is grown")
    options.add_argument("--sizes", type=float, nargs="+", default=[50, 100, 515, 2000], help="megabytes")
    options.add_argument(
        "--rounds", type=int, default=3, help="the fastest of so many is told, and all are kept"
    )
    options.add_argument("--tb", type=Path, help="interpreter that has torch-tb-profiler")
    options.add_argument("--hta", type=Path, help="interpreter that has HolisticTraceAnalysis")
    options.add_argument(
        "--theirs-at", type=float, default=515, help="megabytes at which the others run, too"
    )
    asked = options.parse_args()
    if not asked.source.is_file():
        print(f"there is no trace {asked.source}; give one by --source", file=sys.stderr)
        return 2
    data: dict[str, Any] = {**head("Traces"), "runs": []}
    late = False
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in asked.sizes:
            trace = Path(folder) / "big.json"
            _, events = grow(asked.source, trace, size)
            own = trace.stat().st_size
            taken: dict[str, list[Taken]] = {}
            Taken(commands(asked, trace, Path(folder) / "big.html")["laptime"])
            for number in range(asked.rounds):
                for name, command in commands(asked, trace, Path(folder) / "big.html").items():
                    theirs = name not in ("laptime", "floor")
                    if theirs and (size != asked.theirs_at or number):
                        continue
                    taken.setdefault(name, []).append(Taken(command))
            for name, runs in taken.items():
                best = min(runs, key=lambda run: run.seconds)
                every = sorted(run.seconds for run in runs)
                memory = max(run.peak for run in runs)
                note = "" if best.ok else f"failed: {' '.join(best.error)}"
                rows.append(
                    (
                        f"{own / 1e6:.0f} MB, {events / 1e6:.2f} M events",
                        name,
                        f"{best.seconds:.2f} s",
                        f"{every[0]:.2f} ... {every[-1]:.2f}",
                        f"{memory / 1e6:.0f} MB",
                        note,
                    )
                )
                data["runs"].append(
                    {
                        "bytes": own,
                        "events": events,
                        "tool": name,
                        "seconds": every,
                        "memory": memory,
                        "ok": best.ok,
                    }
                )
                if name == "laptime":
                    limit = {100: 1.5, 515: 5.0}.get(int(size))
                    late |= not best.ok or (limit is not None and best.seconds > limit)
            trace.unlink()
    table(("trace", "tool", "fastest", "all", "memory", ""), rows)
    write(asked.json, data)
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
