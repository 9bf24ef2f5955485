"""What a hooked process is to do, and what it observed.

in     `Settings`, in an environment variable, so that `torchrun`'s children find them
out    files in the folder that the settings name, one of each kind a process: observed-RANK-PID.json when all
       is observed or the script has ended, ended-RANK-PID.json last
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VARIABLE = "LAPTIME_INSTRUMENT"
"""Name of the environment variable that holds the settings as JSON."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to observe a script.

    Attributes:
        folder: where every process writes what it observed.
        steps: traced steps in a cycle. warmup: steps before them under a profiler that keeps nothing.
        wait: steps before anything is measured. repeat: cycles of warm-up and trace.
        timed: untraced steps that are timed at most. seconds: after these the timing ends, at FEWEST steps.
        step_by: optimizer, loader or forward; "" finds out.
        stop: end the script once all is observed.
        sources: files in place of the user's, by path: a patched script runs under its own name.
        primitives: observe oneDNN's primitives of one more step, where there is no accelerator.
    """

    folder: str
    steps: int = 5
    warmup: int = 2
    wait: int = 3
    repeat: int = 1
    timed: int = 500
    seconds: float = 10.0
    step_by: str = ""
    shapes: bool = True
    stack: bool = True
    memory: bool = True
    primitives: bool = True
    stop: bool = True
    quiet: bool = False
    sources: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Settings | None:
        """The settings of this process, None when there are none."""
        text = os.environ.get(VARIABLE)
        return cls(**json.loads(text)) if text else None


def rank() -> int:
    """Rank of this process in its job: 0 when it is alone."""
    return _of_job("get_rank", "RANK", 0)


def world() -> int:
    """Processes of this job: 1 when it is alone."""
    return _of_job("get_world_size", "WORLD_SIZE", 1)


def _of_job(ask: str, variable: str, alone: int) -> int:
    """What torch.distributed answers once the script has joined a group of processes; else the variable."""
    module: Any = sys.modules.get("torch.distributed")
    if module is not None and module.is_available() and module.is_initialized():
        return int(getattr(module, ask)())
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else alone


# What it observed.


@dataclass
class Sample:
    """One step, nanoseconds.

    Attributes:
        wall: by the device's clock where there is one, else by the host's.
        host: by the host's clock; phases are parts of it.
        cpu: CPU time of the process, all its threads.
        phases: data, forward, backward, optimizer; each without those inside it.
    """

    wall: int
    host: int
    cpu: int
    phases: dict[str, int]


@dataclass
class Observed:
    """Everything that was observed of one process.

    Attributes:
        source: what steps were found by: optimizer, loader, forward; "" for none.
        seen: signals by kind.
        settled: steps before the timing.
        untraced, traced: samples of steps without and with the profiler.
        outside: ns between untraced steps; outside_phases: of it in each phase, which evaluation has, too.
        workers: ns of it in which loaders started and ended workers.
        firsts: which of the untraced steps are the first after a pause: an epoch began with them.
        cycles: traces that were recorded whole; traces: their files in this folder.
        primitives: lines of oneDNN, added up, of one more step; None when not observed.
        clock: what `wall` was read from.
        torch, tensorflow: whether the script imported it.
        complete: all that was asked for was observed.
    """

    rank: int
    world: int
    pid: int
    source: str = ""
    seen: dict[str, int] = field(default_factory=dict)
    settled: int = 0
    untraced: list[Sample] = field(default_factory=list)
    traced: list[Sample] = field(default_factory=list)
    outside: int = 0
    outside_phases: dict[str, int] = field(default_factory=dict)
    workers: int = 0
    firsts: list[int] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    primitives: list[dict[str, Any]] | None = None
    clock: str = "host"
    torch: bool = False
    tensorflow: bool = False
    complete: bool = False
    notes: list[str] = field(default_factory=list)
    libraries: dict[str, str] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    knobs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ended:
    """How a script ended.

    Attributes:
        how: stopped (by us), returned, exited (SystemExit), raised, interrupted.
        status: exit status.
        error: the exception in one line.
        traceback: without our own frames.
    """

    how: str
    status: int
    error: str = ""
    traceback: str = ""


def write(folder: str, kind: str, rank: int, what: Observed | Ended) -> None:
    """Put it into the folder in one move: a reader never sees half of it."""
    final = Path(folder) / f"{kind}-{rank}-{os.getpid()}.json"
    draft = final.with_suffix(".tmp")
    draft.write_text(json.dumps(asdict(what), default=str), encoding="utf-8")
    draft.replace(final)
