"""A job: a training on some ranks, started by torchrun under hooks, on this machine or on several that meet.

Every machine carries out `ranks`, its part of the job; the plan of its run says what it has seen."""

import os
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from laptime.instrument.messages import Observed, Settings
from laptime.kit.errors import LaptimeError, Unavailable, UsageError
from laptime.launch.script import TARGET_LOOP, Outcome, Program, execute, resolve
from laptime.probes import machine
from laptime.probes.rendezvous import Rendezvous, meet
from laptime.records.event import EnvironmentChanged, Listener, PlanChanged, ignore
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.store.live_run import LiveRun
from laptime.trace.ranks import RankShare, share_of, shares
from laptime.verbs.profile.run import environment, failure_of, no_step
from laptime.verbs.scale.request import ScaleRequest

TRACED = {"steps": 5, "warmup": 2}  # of a job of the first round
UNTRACED = {"steps": 0, "warmup": 0, "stack": False, "memory": False, "primitives": False, "quiet": True}
LEAVING = 1.0  # seconds that ranks get to end after Ctrl-C: they have nothing to keep
PART = "part"  # of the plan


class JobRequest(ScaleRequest, frozen=True, kw_only=True):
    """A part of a job. meeting: the machines. spread: ranks on each. threads: of a rank; 0: the CPUs of a
    machine over `crowd`, the most ranks that ever share them. traced: trace some steps, if there are others
    to exchange something with. shares_batch: loaders' batches are divided by the ranks."""

    meeting: Rendezvous
    spread: list[int]
    threads: int
    crowd: int
    traced: bool
    shares_batch: bool


class Part(Struct, frozen=True):
    """Observations of a machine: its ranks that had steps, the shares of their traces, how many CPUs other
    programs used meanwhile (None: not known), and the threads of a rank."""

    observed: list[Observed]
    shares: list[RankShare]
    others: float | None
    threads: int


def program_of(request: ScaleRequest) -> Program:
    """The script of a request. Raises UsageError: there is none, or it cannot be started on ranks."""
    module, python = request.module, request.python
    program = resolve(request.program, request.arguments, is_module=module, python=python, verb="scale")
    if TARGET_LOOP in program.words or Path(request.program).name == "torchrun":
        why = "it takes a training script, and starts its ranks by torchrun itself"
        next = "laptime scale --ranks 1,2 train.py"
        raise UsageError(f"{request.program} cannot be started on ranks", why=why, next=next)
    return program


def ranks(request: JobRequest, emit: Listener = ignore) -> Run:
    """Start the ranks of this machine, and stop them once their steps are observed.
    Raises UsageError: there is no such script, or no step in it. UserCodeError: it failed. Unavailable: the
    machines do not reach each other. KeyboardInterrupt: it was interrupted."""
    live, program, meeting = LiveRun("ranks", emit), program_of(request), request.meeting
    own = request.spread[meeting.number]
    launcher = ["--standalone", f"--nproc-per-node={own}"]
    if len(meeting.names) > 1:
        address, port = meet(meeting, live)
        launcher[:1] = [f"--nnodes={len(meeting.names)}", f"--node-rank={meeting.number}"]
        launcher += [f"--master-addr={address}", f"--master-port={port}"]
    else:
        live.start(environment=machine.environment())
    threads = request.threads or max(1, len(os.sched_getaffinity(0)) // request.crowd)
    options: dict[str, Any] = UNTRACED | (TRACED if request.traced else {})
    options |= {"timed": request.steps, "exactly": request.steps, "wait": request.warmup}
    with tempfile.TemporaryDirectory(prefix="laptime-scale-") as folder:
        outcome = execute(
            replace(program, words=["-m", "torch.distributed.run", *launcher, *program.words]),
            settings=Settings(folder=folder, shares_batch=request.shares_batch, **options),
            timeout=request.timeout,
            output_to_stderr=True,
            output=Path(folder) / "output.txt",
            variables={"OMP_NUM_THREADS": str(threads)},
            ranks=own,
            grace=LEAVING,
        )
        if outcome.interrupted:
            raise KeyboardInterrupt
        if error := _failure(program, outcome, own):
            raise error
        seen = [each for each in outcome.observed if each.source]
        if not seen:
            raise no_step(program, outcome)
        part = Part(seen, _shares(Path(folder), seen), outcome.others, threads)
    live(EnvironmentChanged(environment(seen[0])))
    live(PlanChanged({PART: Setting(value=to_builtins(part))}))
    return live.finish()


def _failure(program: Program, outcome: Outcome, own: int) -> LaptimeError | None:
    # The launcher fails because a rank did.
    of_ranks = [each for each in outcome.ended if "ChildFailedError" not in each.error]
    error = failure_of(program, replace(outcome, ended=of_ranks or outcome.ended))
    if error and not isinstance(error, Unavailable):
        again = ["torchrun", f"--nproc-per-node={own}", *program.words]
        error.next = f"without laptime: {shlex.join(again)}"
    return error


def _shares(folder: Path, seen: Sequence[Observed]) -> list[RankShare]:
    """Reduce the ranks' traces to their shares; nothing if they cannot be read."""
    paths = [folder / each.traces[-1] for each in seen if each.traces]
    with suppress(LaptimeError, IndexError):
        own = share_of(paths[0])
        return [own, *shares(paths[1:], own).shares]
    return []
