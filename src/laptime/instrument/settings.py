"""What a hooked process is to do. It travels in the environment, so that `torchrun`'s children find it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field
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
        """The value of the environment variable."""
        return json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Settings | None:
        """The settings of this process, None when there are none."""
        text = os.environ.get(VARIABLE)
        return cls(**json.loads(text)) if text else None


def rank() -> int:
    """Rank of this process in its job: 0 when it is alone."""
    group = _group()
    return int(group.get_rank()) if group else _number("RANK", 0)


def world() -> int:
    """Processes of this job: 1 when it is alone."""
    group = _group()
    return int(group.get_world_size()) if group else _number("WORLD_SIZE", 1)


def _group() -> Any:
    """torch.distributed, once the script has joined a group of processes."""
    module = sys.modules.get("torch.distributed")
    return module if module is not None and module.is_available() and module.is_initialized() else None


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise
