"""A store of made-up runs, and commands that read it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from laptime.records.run import Run
from laptime.store import folder
from laptime.store.encoding import encode


class Spent(NamedTuple):
    """What a whole process took: seconds of wall and CPU time, bytes of memory; its children are in them."""

    seconds: float
    cpu: float
    memory: int


def fill(root: Path, made: Iterable[Run]) -> None:
    """A file of each run, changed a minute ago: younger ones are not indexed."""
    then = time.time_ns() - 60 * 10**9
    for run in made:
        path = folder.month_of(run.id, root) / f"{run.id}.json"
        path.write_bytes(encode(run))
        os.utime(path, ns=(then, then))


def spent(root: Path, *words: str, program: Sequence[str] = (), code: int | None = 0) -> Spent:
    """What `laptime WORDS` on this store took, the start of Python in it. program: another one. code: how it
    is to end; None: any way."""
    started = time.perf_counter()
    command = program or [sys.executable, "-m", "laptime", *words]
    env = {**os.environ, "LAPTIME_HOME": str(root)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(command, env=env, stdout=nowhere, stderr=nowhere)
    _, status, usage = os.wait4(process.pid, 0)
    seconds, process.returncode = time.perf_counter() - started, os.waitstatus_to_exitcode(status)
    if code not in (None, process.returncode):
        raise subprocess.CalledProcessError(process.returncode, command)
    return Spent(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def command(root: Path, rounds: int, *words: str) -> list[float]:
    """Seconds of `laptime WORDS` on this store, so many times."""
    return [spent(root, *words).seconds for _ in range(rounds)]
