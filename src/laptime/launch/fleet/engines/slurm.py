"""`slurm` and `slurm:PARTITION`: nodes of a Slurm cluster, an exclusive job of `srun` each; inside of a job,
its nodes, a step each. This file is also the program that becomes `srun`: that goes on when nobody reads any
more, and leaves its job behind if it is killed as that begins."""

import os
import secrets
import select
import signal
import subprocess
import sys
import time

from laptime.kit.errors import UsageError
from laptime.kit.text import some
from laptime.launch.fleet import NODE, Machine, ask

USABLE = ("idle", "mixed", "allocated", "completing", "planned")  # states of nodes that start jobs (sinfo(1))
LONGEST, QUEUED = 60.0, 240  # seconds of sinfo (50 without munge), of a job in the queue (below `node.START`)


def machines(text: str) -> list[Machine]:
    """The nodes that take jobs. Raises UsageError: Slurm does not answer, has none, or no such partition."""
    partition = [f"--partition={text}"] if text else []
    inside = [f"--nodes={nodes}"] if (nodes := os.environ.get("SLURM_JOB_NODELIST")) else []
    words = ["sinfo", "--noheader", "--Node", "--format=%N %T", *partition, *inside]
    said = ask(words, LONGEST, "Slurm's sinfo failed", "munge -n, then sinfo   on a login node")
    states = dict(line.split() for line in said.splitlines())
    names = [name for name, state in states.items() if state.rstrip("*~#!%$@^-+") in USABLE]
    if not names:
        why = some([f"{name} is {state}" for name, state in states.items()], 5) or f"no partition {text}"
        raise UsageError("no node of Slurm takes jobs", why=why, next="sinfo --Node --long")
    alone = () if inside else ("--exclusive", f"--immediate={QUEUED}", *partition)  # gives steps one CPU
    start = (sys.executable, "-P", "-m", "laptime.launch.fleet.engines.slurm", *alone)
    return [Machine(name, (*start, f"--nodelist={name}", sys.executable, *NODE), name) for name in names]


def main(*words: str) -> None:
    """Become `srun`. A child ends its job, however it goes, and if whoever has started it goes first."""
    name, srun, (alive, held) = f"laptime-{secrets.token_hex(6)}", os.getpid(), os.pipe()
    if os.fork():
        os.set_inheritable(held, True)  # until srun is gone
        step = ("srun", f"--job-name={name}", "--nodes=1", "--ntasks=1", "--unbuffered", "--quiet", *words)
        os.execvp(step[0], step)  # noqa: S606
    os.setsid()
    os.close(held)
    ends = select.poll()
    for descriptor in (0, alive):
        ends.register(descriptor, 0)  # not what comes, but that nobody is left to say anything
    if alive not in dict(ends.poll()):
        os.kill(srun, signal.SIGTERM)
    look, cancel = ("squeue", "--noheader", "--states=PD,R", f"--name={name}"), ("scancel", f"--name={name}")
    for _ in range(10):  # what a killed srun has asked for may come later, or Slurm be busy
        time.sleep(1.0)
        if not (found := subprocess.run(look, capture_output=True)).stdout and not found.returncode:
            break
        subprocess.run(cancel, capture_output=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
