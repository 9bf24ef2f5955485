"""`slurm` and `slurm:PARTITION`: nodes of a Slurm cluster, one exclusive step of `srun` each."""

from __future__ import annotations

import subprocess
import sys

from laptime.kit.errors import UsageError
from laptime.launch.fleet import NODE, Machine

USABLE = ("idle", "mixed", "allocated", "completing")  # states of a node whose jobs start in time (sinfo(1))
LONGEST = 30.0  # seconds that sinfo may take


def machines(text: str) -> list[Machine]:
    """The nodes that take jobs.
    Raises UsageError: Slurm is not there, does not answer, or has no such partition."""
    partition = [f"--partition={text}"] if text else []
    try:
        answer = subprocess.run(
            ["sinfo", "--noheader", "--Node", "--format=%N %T", *partition],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
    except FileNotFoundError:
        raise UsageError(
            "slurm has no sinfo on this machine",
            why="laptime asks Slurm by its own programs",
            next="the same command on a login node of the cluster",
        ) from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"sinfo did not answer within {LONGEST:.0f} s", next="sinfo") from None
    if answer.returncode:
        lines = answer.stderr.strip().splitlines() or ["sinfo failed"]
        raise UsageError("sinfo failed", why=lines[-1], next="sinfo   shows whether the cluster answers")
    rows = [line.split() for line in answer.stdout.splitlines()]
    names = dict.fromkeys(row[0] for row in rows if len(row) == 2 and row[1].rstrip("*~#!%$@^-+") in USABLE)
    step = ("srun", "--nodes=1", "--ntasks=1", "--exclusive", "--unbuffered", "--quiet", *partition)
    return [Machine(name, (*step, f"--nodelist={name}", sys.executable, *NODE), name) for name in names]
