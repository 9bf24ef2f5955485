"""`slurm` and `slurm:PARTITION`: nodes of a Slurm cluster, one exclusive step of `srun` each."""

from __future__ import annotations

import sys

from laptime.launch.fleet import NODE, Machine, ask

USABLE = ("idle", "mixed", "allocated", "completing")  # states of a node whose jobs start in time (sinfo(1))
LONGEST = 30.0  # seconds that sinfo may take


def machines(text: str) -> list[Machine]:
    """The nodes that take jobs.
    Raises UsageError: Slurm is not there, does not answer, or has no such partition."""
    partition = [f"--partition={text}"] if text else []
    words = ["sinfo", "--noheader", "--Node", "--format=%N %T", *partition]
    said = ask(words, LONGEST, "Slurm's sinfo failed", "sinfo   on a login node of the cluster")
    rows = [line.split() for line in said.splitlines()]
    names = dict.fromkeys(row[0] for row in rows if len(row) == 2 and row[1].rstrip("*~#!%$@^-+") in USABLE)
    step = ("srun", "--nodes=1", "--ntasks=1", "--exclusive", "--unbuffered", "--quiet", *partition)
    return [Machine(name, (*step, f"--nodelist={name}", sys.executable, *NODE), name) for name in names]
