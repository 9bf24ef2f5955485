"""Runs our own benchmarks, one after the other: all of benchmarks/*.py, or the ones named.

    python scripts/bench.py [NAME ...]

Every benchmark is a script that prints a table; figures in docs/measurements.md come from these.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(names: list[str]) -> int:
    """Run them; 1 when one failed, 2 when a name is unknown."""
    known = {path.stem: path for path in sorted((ROOT / "benchmarks").glob("[!_]*.py"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"error: no benchmark is called {', '.join(unknown)}", file=sys.stderr)
        print(f"why:   known: {', '.join(known)}", file=sys.stderr)
        print("next:  make bench ONLY=NAME", file=sys.stderr)
        return 2
    failed = []
    for name in names or known:
        print(f"\n--- {name}", flush=True)
        started = time.perf_counter()
        if subprocess.run([sys.executable, str(known[name])], cwd=ROOT).returncode != 0:
            failed.append(name)
        print(f"--- {name}: {time.perf_counter() - started:.0f} s")
    print("failed: " + ", ".join(failed) if failed else f"ran {len(names or known)} benchmarks")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
