"""Is `laptime load` trusted on real servers where its own lateness moves no figure?

FastAPI with a torch encoder, BentoML with the same and http.server, each alone on CPU 0, the generator on
CPU 1: three tenths of what one user gets, at random, until results are known to 5 %, at most `--seconds`. A
level whose lateness is below 3 % of every figure and that is called `invalid` is a false word.

    python benchmarks/load_servers.py --python VENV/bin/python     an environment with fastapi, bentoml, torch
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from _harness import Figures, option, run, table
from laptime.analysis.load import level_stats
from laptime.kit.units import percent, show
from laptime.tuning.server.visit import free_port
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load

HERE = Path(__file__).resolve().parent
SHARE, LIMIT = 0.3, 0.03
KINDS = ("fastapi", "bentoml", "http.server")


@contextmanager
def serving(kind: str, python: str) -> Iterator[str]:
    """Address of a server on CPU 0 that answers."""
    port = free_port()
    words = [python, str(HERE / "_real_servers.py"), kind, str(port)]
    if kind == "bentoml":
        words = [python, "-m", "bentoml", "serve", "_real_servers:Encoder", "--port", str(port)]
    server = subprocess.Popen(
        ["taskset", "-c", "0", *words],
        cwd=HERE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}/predict"
    try:
        for _ in range(240):
            try:
                asked(url)
                break
            except OSError:
                if server.poll() is not None:
                    raise RuntimeError(f"{kind} ended with {server.returncode}") from None
                time.sleep(0.25)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(20)


def asked(url: str) -> float:
    """Seconds of one answer."""
    began = time.monotonic()
    with urlopen(Request(url, b"{}", {"content-type": "application/json"}), timeout=10) as reply:
        reply.read()
    return time.monotonic() - began


def main(asked_for: Namespace, figures: Figures) -> int:
    """A row a server; 1 if a word was false."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {1})
    rows, false = [], 0
    for kind in KINDS:
        try:
            with serving(kind, asked_for.python) as url:
                alone = sorted(asked(url) for _ in range(40))[20]
                rate, most = round(SHARE / alone, 1), asked_for.seconds
                request = LoadRequest(target=url, rates=[rate], auto=True, budget=most, bodies=["{}"])
                (case,) = load(request).cases
        except (OSError, RuntimeError) as error:
            print(f"{kind}: left out, {error}", file=sys.stderr)
            continue
        stats, late = level_stats(case), next((c for c in case.checks if c.name == "late"), None)
        assert stats is not None
        found = re.search(r"([\d.]+) %", late.sentence) if late else None
        share = float(found[1]) / 100 if found else 0.0
        is_false = case.trust == "invalid" and share < LIMIT
        false += is_false
        reasons = "; ".join(c.sentence for c in case.checks if c.outcome in ("fail", "warn"))
        median = stats.latency["median"]
        figures[kind] = {"alone": alone, "trust": case.trust, "late": share, "reasons": reasons}
        rows.append((kind, show(alone, "s"), f"{request.rates[0]:g}/s", median.text))
        rows[-1] = (*rows[-1], show(stats.late, "s"), percent(share), case.trust, reasons or "-")
        figures.keep()
    columns = ("server", "one user", "rate", "median", "p99 of lateness", "of a figure", "verdict", "why")
    table(columns, rows)
    return int(bool(false))


run(
    main,
    "Load on real servers",
    option("--python", default=sys.executable),
    option("--seconds", type=float, default=300.0, help="that a level may take"),
)
