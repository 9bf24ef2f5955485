"""What `laptime profile` can be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from laptime.records.plan import Origin


@dataclass(frozen=True, kw_only=True)
class ProfileRequest:
    """What `laptime profile` can be asked.

    Attributes:
        program: a script, a module, a command written in Python (torchrun), or a target of `bench`.
        arguments: its own.
        module: `program` names a module, as for `python -m`.
        python: interpreter to run it with; "" is ours.
        steps, warmup, wait, repeat, step_by, stack, memory: see `laptime.instrument.settings.Settings`.
        batch, dtype, device: of a target.
        timeout: seconds after which the script is interrupted.
        trace: folder to keep the traces in; None keeps them beside the stored run.
        output_to_stderr: the script's standard output goes to standard error: ours is for the result.
        stop: end the program once its steps are observed.
        save: keep the run.
    """

    program: str
    arguments: list[str] = field(default_factory=list)
    module: bool = False
    python: str = ""
    steps: int = 5
    warmup: int = 2
    wait: int = 3
    repeat: int = 1
    step_by: str = ""
    stack: bool = True
    memory: bool = True
    batch: int | None = None
    dtype: str = "float32"
    device: str = "auto"
    timeout: float = 1800.0
    trace: Path | None = None
    output_to_stderr: bool = False
    quiet: bool = False
    stop: bool = True
    name: str = ""
    save: bool = True
    origins: dict[str, Origin] = field(default_factory=dict)
