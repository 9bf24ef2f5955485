"""How fast is `laptime trace big.json -o big.html`, on every kind of trace, and beside the tools it replaces?

Asked for: seconds per million events within a factor of two over all kinds and sizes, at most 2.5 times the
CPU time of a typed decode of the same bytes, 100 MB within 1.5 s, 515 MB within 4 s and 350 MB. Of a folder
(`--ranks 64 256`): 64 ranks of 1 MB within 3 s, 256 within 10 s, 1 GB of memory, a page below 2 MB; 64 of
20 MB (`--ranks 64 --megabytes 20`) within 30 s and 2 GB.
Every run is a whole fresh process with its children. Memory is the highest sum of resident memory of all of
them, looked at every 10 ms. The floor is a typed decode of the same bytes that keeps nothing.

The older tools need an interpreter of their own each; without one they are left out:
    python -m venv tb  && tb/bin/pip install torch-tb-profiler==0.4.3 "setuptools<81" "numpy<2" "pandas<2.3"
    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis "pandas<3" "numpy<2.3"
    python -m venv lens && lens/bin/pip install FOLDER/TraceLens   # a clone of AMD-AGI/TraceLens
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import psutil

from _grow import grow
from _harness import Figures, option, run, table
from _recorded import record

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "shared" / "data" / "traces"
KINDS = {
    "V100 2021": "resnet50_num_workers_0.json.gz",
    "A100 NCCL": "nccl_a100.json.gz",
    "V100 times too large for floats": "ns_resolution_v100.json.gz",
    "H100 functions": "h100_bert_small.json.gz",
    "H100 modules": "h100_vit.json.gz",
    "MI300": "mi300_vit.json.gz",
    "V100 a rank of 8": "dlrm_8_ranks/worker0_step_12.1694128201545.pt.trace.json.gz",
}
# An installed package has its bytecode; the first run, which is not counted, writes it.
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
FLOOR = """
import re, sys
from laptime.trace.reading import stream
cut = stream.Cut(open(sys.argv[1], "rb").read)
print(sum(len(events) for events in cut.events()))
"""


class Taken:
    """One whole process with its children: seconds of wall and CPU time, bytes of memory, did it end well."""

    def __init__(self, command: list[str]) -> None:
        self.peak = 0
        before = _cpu()
        started = time.perf_counter()
        process = subprocess.Popen(command, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        watcher = threading.Thread(target=self._watch, args=(process.pid,), daemon=True)
        watcher.start()
        _, errors = process.communicate()
        self.seconds = time.perf_counter() - started
        self.cpu = _cpu() - before
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


def _cpu() -> float:
    """CPU seconds of all children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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
    if asked.lens:
        found["TraceLens"] = [str(asked.lens), str(HERE / "_their_traces.py"), "lens", str(trace)]
    return found


def sources(asked: Any, folder: Path) -> dict[str, Path]:
    """Small traces by kind."""
    if asked.source:
        return {asked.source.name: asked.source}
    real = {kind: SAMPLES / name for kind, name in KINDS.items() if (SAMPLES / name).is_file()}
    return {**real, **record(folder)}


def measured(asked: Any, kind: str, source: Path, size: float, folder: Path) -> list[dict[str, Any]]:
    """What one trace of this kind and size took, by tool."""
    trace, page = folder / "big.json", folder / "big.html"
    _, events = grow(source, trace, size)
    taken: dict[str, list[Taken]] = {}
    own = commands(asked, trace, page)
    Taken(own["laptime"])
    for number in range(asked.rounds):
        for name, command in own.items():
            theirs = name not in ("laptime", "floor")
            if theirs and (size != asked.theirs_at or number):
                continue
            taken.setdefault(name, []).append(Taken(command))
    length = trace.stat().st_size
    trace.unlink()
    return [
        {
            "kind": kind,
            "bytes": length,
            "events": events,
            "tool": name,
            "seconds": sorted(run.seconds for run in runs),
            "cpu": min(run.cpu for run in runs),
            "memory": max(run.peak for run in runs),
            "error": " ".join(next((run.error for run in runs if not run.ok), [])),
        }
        for name, runs in taken.items()
    ]


RANKS = {(64, 1): (3.0, 1e9), (256, 1): (10.0, 1e9), (64, 20): (30.0, 2e9)}
"""Ranks of a job and megabytes of each; seconds and bytes of memory asked for."""


def job(number: int, megabytes: float, folder: Path) -> Path:
    """A folder of so many ranks: those of a real job of eight, grown. One made before is used."""
    whole = folder / f"{number} ranks of {megabytes:g} MB"
    if whole.is_dir():
        return whole
    whole.mkdir(parents=True)
    for rank, source in enumerate(sorted((SAMPLES / "dlrm_8_ranks").glob("*.gz"))):
        grown = folder / "grown.json"
        grow(source, grown, megabytes)
        text = re.sub(r'"distributedInfo": {[^}]*}, ', "", grown.read_text())
        for each in range(rank, number, 8):
            stated = json.dumps({"backend": "nccl", "rank": each, "world_size": number})
            (whole / f"rank{each}.json").write_text(f'{{"distributedInfo": {stated}, {text[1:]}')
    return whole


def jobs(asked: Any, data: Figures, folder: Path) -> list[str]:
    """Print what folders of ranks took; what was missed."""
    rows, late = [], []
    for number in asked.ranks:
        whole, page = job(number, asked.megabytes, asked.folder or folder), folder / "job.html"
        own = commands(asked, whole, page)["laptime"]
        runs = [Taken(own) for _ in range(asked.rounds + 1)][1:]
        seconds, size = sorted(run.seconds for run in runs), page.stat().st_size
        peak, length = max(run.peak for run in runs), sum(each.stat().st_size for each in whole.iterdir())
        data.setdefault("jobs", []).append(
            {"ranks": number, "bytes": length, "seconds": seconds, "memory": peak, "page": size}
            | {"cpu": min(run.cpu for run in runs), "error": [run.error for run in runs if not run.ok]}
        )
        rows.append(
            (
                f"{number} ranks, {length / 1e6:.0f} MB",
                f"{seconds[0]:.2f} ... {seconds[-1]:.2f} s",
                f"{min(run.cpu for run in runs):.2f} s",
                f"{peak / 1e6:.0f} MB",
                f"{size / 1e6:.2f} MB",
            )
        )
        most, memory = RANKS.get((number, asked.megabytes), (math.inf, math.inf))
        if seconds[0] > most or peak > memory or size > 2e6:
            late.append(f"{number} ranks: asked for {most} s, {memory / 1e9:.0f} GB and a page of 2 MB")
        if not asked.folder:
            shutil.rmtree(whole)
    table(("job", "wall", "CPU", "memory", "page"), rows)
    return late


def row(run: dict[str, Any], floor: float) -> tuple[str, ...]:
    """A row of the table."""
    fastest, slowest = run["seconds"][0], run["seconds"][-1]
    return (
        run["kind"],
        f"{run['bytes'] / 1e6:.0f} MB, {run['events'] / 1e6:.2f} M events",
        run["tool"],
        f"{fastest:.2f} ... {slowest:.2f} s",
        f"{fastest / run['events'] * 1e6:.2f} s",
        f"{run['cpu']:.2f} s" + (f", {run['cpu'] / floor:.1f} floors" if floor else ""),
        f"{run['memory'] / 1e6:.0f} MB",
        run["error"],
    )


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when a limit is passed."""
    data |= {"runs": []}
    with tempfile.TemporaryDirectory() as folder:
        if asked.ranks:
            late = jobs(asked, data, Path(folder))
            print(*late, sep="\n")
            return int(bool(late))
        for kind, source in sources(asked, Path(folder)).items():
            if asked.kinds and kind not in asked.kinds:
                continue
            for size in asked.sizes:
                data["runs"] += measured(asked, kind, source, size, Path(folder))
    floors = {(run["kind"], run["bytes"]): run["cpu"] for run in data["runs"] if run["tool"] == "floor"}
    rows = [row(run, floors[run["kind"], run["bytes"]]) for run in data["runs"]]
    table(("kind", "trace", "tool", "wall", "per million events", "CPU", "memory", ""), rows)
    late = missed([run for run in data["runs"] if run["tool"] == "laptime"], floors)
    print(*late, sep="\n")
    return int(bool(late))


def missed(runs: list[dict[str, Any]], floors: dict[tuple[str, int], float]) -> list[str]:
    """What was asked for and not kept, one sentence each."""
    late = []
    for each in runs:
        name, size = f"{each['kind']}, {each['bytes'] / 1e6:.0f} MB", each["bytes"] / 1e6
        limit = 1.5 if 90 < size < 110 else 4.0 if 480 < size < 530 else None
        if each["error"]:
            late.append(f"{name}: failed: {each['error']}")
        if limit and each["seconds"][0] > limit:
            late.append(f"{name}: {each['seconds'][0]:.2f} s, asked for {limit} s")
        if 480 < size < 530 and each["memory"] > 350e6:
            late.append(f"{name}: {each['memory'] / 1e6:.0f} MB of memory, asked for 350 MB")
        if each["cpu"] > 2.5 * floors[each["kind"], each["bytes"]]:
            late.append(f"{name}: {each['cpu'] / floors[each['kind'], each['bytes']]:.1f} floors of CPU time")
    rates = [each["seconds"][0] / each["events"] for each in runs]
    if rates and max(rates) > 2 * min(rates):
        late.append(f"seconds per million events differ by {max(rates) / min(rates):.1f}")
    return late


if __name__ == "__main__":
    run(
        main,
        "Traces",
        option("--source", type=Path, help="one small trace that is grown, instead of all kinds"),
        option("--kinds", nargs="+", metavar="KIND", help="these only"),
        option("--sizes", type=float, nargs="+", default=[50, 100, 515, 2000], help="megabytes"),
        option("--ranks", type=int, nargs="+", default=[], help="jobs of so many ranks, and nothing else"),
        option("--megabytes", type=float, default=1, help="of each rank of these jobs"),
        option("--folder", type=Path, help="where these jobs are kept"),
        option("--rounds", type=int, default=3, help="the fastest of so many is told, and all are kept"),
        option("--tb", type=Path, help="interpreter that has torch-tb-profiler"),
        option("--hta", type=Path, help="interpreter that has HolisticTraceAnalysis"),
        option("--lens", type=Path, help="interpreter that has TraceLens"),
        option("--theirs-at", type=float, default=515, help="megabytes at which the others run, too"),
    )
