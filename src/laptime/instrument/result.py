"""What one process observed, as files in the folder that its settings name.

observed-RANK-PID.json    written when everything is observed, or the script has ended
ended-RANK-PID.json       written last: how the script ended
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


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
