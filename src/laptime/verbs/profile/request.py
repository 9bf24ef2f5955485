"""What `laptime profile` can be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from laptime.kit.errors import UsageError
from laptime.launch.script import TARGET_LOOP, Program
from laptime.records.plan import BenchRequest, Origin
from laptime.store import writable
from laptime.verbs.bench.planning import plan

OF_TARGETS = ("batch", "dtype", "device")
"""Options that a script, which makes its own batches, does not have."""


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

    def check(self, program: Program) -> None:
        """Raise what is wrong with the options, before the program is run.

        Raises:
            UsageError: an option of targets stands before a script, a value is impossible, or the traces
                cannot be kept where they were asked for.
        """
        if self.trace is not None:
            writable.folder(self.trace, "--trace")
        if TARGET_LOOP in program.words:
            batch = None if self.batch is None else [self.batch]
            plan(BenchRequest(targets=[self.program], batch=batch, dtype=[self.dtype], device=self.device))
            return
        for name in OF_TARGETS:
            if name in self.origins:
                raise UsageError(
                    f"--{name} is for targets",
                    why=f"{self.program} is a script: it chooses its own {name}",
                    next=f"laptime profile {self.program}",
                )
