"""What a trial has found, in its folder.

rounds.jsonl      one line a block, as it ends: {"round", "arm", "seconds": [...], "losses": [...],
"samples": [...]}
trial.json        at the end, see Trial; written in one move
situation.json    mode diagnose: fields of `tuning.loop_profile.LoopProfile`
gate.json         mode gate: see `trial.witness`
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Block:
    """Timed steps of one arm, back to back.

    Attributes:
        round, arm: which. seconds: wall time of each step, the device waited for at both ends of the block;
            with an
            accelerator its steps are the block's time divided evenly.
        losses: of each step, where a scalar was backpropagated; samples: in each step.
        compiling: of the seconds, those of torch.compile: another shape came by. cpu: CPU seconds of the
            block. process: 0-based number, set by who reads several trials.
    """

    round: int
    arm: int
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    cpu: float = 0.0
    process: int = 0
    compiling: float = 0.0


@dataclass
class TrialResult:
    """How a trial went.

    Attributes:
        ended: stopped (we had enough), returned, exited, raised, memory, interrupted.
        error: one line. traceback: without our frames.
        source: what steps were found by; "" when there was none. settled: steps before the timing.
        settling: seconds of each of them. imported: seconds until torch was imported; first: until the
            first step ended.
        compile_seconds: of torch.compile in all; recompiles: after settling; graph_breaks.
        peak: bytes, of the process (RSS, CPU) or the device's allocator. peaks: by arm.
        optimizer_steps, batch, learning_rates: of the timed steps.
        world: processes of the job; rank. device: cpu, cuda:0 ...
        writes: files that the script has written (into the scratch folder), as it named them.
        left: what an `undo` could not give back; empty when all is well.
        refused: changes that could not be applied, with the reason: {"name": ..., "why": ...}.
        seen: signals by kind, as in `instrument.result.Observed`.
    """

    ended: str = ""
    error: str = ""
    traceback: str = ""
    status: int = 0
    source: str = ""
    settled: int = 0
    settling: list[float] = field(default_factory=list)
    imported: float | None = None
    first: float | None = None
    compile_seconds: float = 0.0
    recompiles: int = 0
    graph_breaks: int = 0
    peak: int | None = None
    peaks: list[int | None] = field(default_factory=list)
    optimizer_steps: int = 0
    batch: int = 0
    learning_rates: list[float] = field(default_factory=list)
    world: int = 1
    rank: int = 0
    torch: bool = False
    device: str = "cpu"
    writes: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    knobs: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def write(folder: str, name: str, what: Any) -> None:
    """Put a document into the folder in one move: a reader never sees half of it."""
    final = Path(folder) / name
    draft = final.with_suffix(".tmp")
    text = json.dumps(what if isinstance(what, dict) else asdict(what), default=str)
    draft.write_text(text, encoding="utf-8")
    draft.replace(final)


def append(folder: str, block: Block) -> None:
    """Add a block to `rounds.jsonl`: one write, so that a reader that follows the file sees whole lines."""
    line = json.dumps(asdict(block)) + "\n"
    descriptor = os.open(Path(folder) / "rounds.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
