"""The task of a hooked process, and its observations.

in     `Settings`, in an environment variable, so that `torchrun`'s children find them
out    files in the folder that the settings name, one of each kind a process: observed-RANK-PID.json when all
       is observed or the script has ended, ended-RANK-PID.json last"""

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VARIABLE = "LAPTIME_INSTRUMENT"  # name of the environment variable that holds the settings as JSON
PARENT = "LAPTIME_PARENT"  # and of the one that holds the process id of whoever has started the process


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to observe a script."""

    folder: str  # where every process writes what it observed
    steps: int = 5  # traced steps in a cycle
    warmup: int = 2  # steps before them under a profiler that keeps nothing
    wait: int = 3  # steps before anything is measured
    repeat: int = 1  # cycles of warm-up and trace
    timed: int = 500  # untraced steps that are timed at most
    seconds: float = 10.0  # after these the timing ends, at FEWEST steps
    step_by: str = ""  # optimizer, loader or forward; "" finds out
    shapes: bool = True
    stack: bool = True
    memory: bool = True
    primitives: bool = True  # observe oneDNN's primitives of one more step, if there is no accelerator
    stop: bool = True  # end the script once all is observed
    quiet: bool = False
    # time just so many untraced steps, count their samples, and trace none unless `steps` says so; 0: as many
    # as say enough
    exactly: int = 0
    shares_batch: bool = False  # loaders' batches are divided by the number of ranks
    # files in place of the user's, by path: a patched script runs under its own name
    sources: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> "Settings | None":
        """The settings of this process, None when there are none."""
        text = os.environ.get(VARIABLE)
        return cls(**json.loads(text)) if text else None


def rank() -> int:
    """Rank of this process in its job: 0 when it is alone."""
    return _of_job("get_rank", "RANK", 0)


def world() -> int:
    """Processes of this job: 1 when it is alone."""
    return _of_job("get_world_size", "WORLD_SIZE", 1)


def is_joined() -> bool:
    """Whether the script has joined a group of processes."""
    module: Any = sys.modules.get("torch.distributed")
    return module is not None and module.is_available() and bool(module.is_initialized())


def _of_job(ask: str, variable: str, alone: int) -> int:
    """Ask torch.distributed once the script has joined a group of processes; else read the variable."""
    if is_joined():
        return int(getattr(sys.modules["torch.distributed"], ask)())
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else alone


# What it observed.


@dataclass
class Sample:
    """One step, nanoseconds."""

    wall: int  # by the device's clock if there is one, else by the host's
    host: int  # by the host's clock; phases are parts of it
    cpu: int  # CPU time of the process, all its threads
    phases: dict[str, int]  # data, forward, backward, optimizer; each without those inside it


@dataclass
class Observed:
    """Everything that was observed of one process. cycles: traces that were recorded whole; traces: their
    files in this folder."""

    rank: int
    world: int
    pid: int
    source: str = ""  # what steps were found by: optimizer, loader, forward; "" for none
    seen: dict[str, int] = field(default_factory=dict)  # signals by kind
    settled: int = 0  # steps before the timing
    # untraced, traced: samples of steps without and with the profiler
    untraced: list[Sample] = field(default_factory=list)
    traced: list[Sample] = field(default_factory=list)
    outside: int = 0  # ns between untraced steps
    # of it in each phase, which evaluation has, too
    outside_phases: dict[str, int] = field(default_factory=dict)
    workers: int = 0  # ns of it in which loaders started and ended workers
    # which of the untraced steps are the first after a pause: an epoch began with them
    firsts: list[int] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    # lines of oneDNN, added up, of one more step; None when not observed
    primitives: list[dict[str, Any]] | None = None
    clock: str = "host"  # what `wall` was read from
    # torch, tensorflow: whether the script imported it
    torch: bool = False
    tensorflow: bool = False
    complete: bool = False  # all that was asked for was observed
    denormal: float = 0.0  # share of denormal numbers in parameters, gradients and optimizers on a CPU
    notes: list[str] = field(default_factory=list)
    joined: bool = False  # the process was one of a group of torch.distributed
    # samples, batches: of one timed step, and of its loader in an epoch; 0 unknown, or not asked for
    samples: float = 0.0
    batches: int = 0
    libraries: dict[str, str] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    knobs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ended:
    """How a script ended."""

    how: str  # stopped (by us), returned, exited (SystemExit), raised, interrupted
    status: int  # exit status
    error: str = ""  # the exception in one line
    traceback: str = ""  # without our own frames


def write(folder: str, kind: str, rank: int, what: Observed | Ended) -> None:
    """Put it into the folder in one move: a reader never sees half of it."""
    final = Path(folder) / f"{kind}-{rank}-{os.getpid()}.json"
    draft = final.with_suffix(".tmp")
    draft.write_text(json.dumps(asdict(what), default=str), encoding="utf-8")
    draft.replace(final)
