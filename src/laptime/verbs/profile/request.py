"""The request of `laptime profile`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from laptime.kit.errors import UsageError
from laptime.kit.options import Option
from laptime.kit.units import seconds
from laptime.records.plan import STEPS, BenchRequest, Module, Name, Origin, Save

if TYPE_CHECKING:
    from laptime.launch.script import Program

OF_TARGETS = ("batch", "dtype", "device")  # options that a script, which makes its own batches, does not have


@dataclass(frozen=True, kw_only=True)
class ProfileRequest:
    """The request of `laptime profile`."""

    program: str  # a script, a module, a command written in Python (torchrun), or a target of `bench`
    arguments: list[str] = field(default_factory=list)
    module: Module = False
    python: Annotated[str, Option("Python interpreter to run it with. [default: laptime's own]", "PATH")] = ""
    steps: Annotated[int, Option("Steps to trace.", least=1)] = 5
    warmup: Annotated[int, Option("Steps with the profiler on but not recording.", least=0)] = 2
    wait: Annotated[int, Option("Steps before the profiler starts.", least=0)] = 3
    repeat: Annotated[int, Option("Traces to record; the report uses the last one.", least=1)] = 1
    step_by: Annotated[
        str, Option("What marks a step. [default: the first of these that the script has]", choices=STEPS)
    ] = ""
    stack: Annotated[bool, Option("Do not record call stacks and modules.")] = True
    memory: Annotated[bool, Option("Do not record memory.")] = True
    batch: Annotated[int | None, Option("Batch size of TARGET. [default: that of its inputs]", least=1)] = (
        None
    )
    dtype: Annotated[str, Option("Data type of TARGET.", "NAME")] = "float32"
    device: Annotated[str, Option("Device of TARGET.", "NAME")] = "auto"
    timeout: Annotated[float, Option("Stop the script after this time.", "TIME", read=seconds)] = 1800.0
    trace: Annotated[
        Path | None, Option("Keep the trace in this folder. [default: beside the run]", "FOLDER")
    ] = None
    # the script's standard output goes to standard error: ours is for the result
    output_to_stderr: bool = False
    quiet: bool = False
    stop: bool = True  # end the program once its steps are observed
    name: Name = ""
    save: Save = True
    origins: dict[str, Origin] = field(default_factory=dict)

    def check(self, program: "Program") -> None:
        """Raise what is wrong with the options, before the program is run.
        Raises UsageError: an option of targets stands before a script, a value is impossible, or the traces
        cannot be kept where they were asked for."""
        # Not at the top: `laptime profile --help` reads this file.
        from laptime.launch.script import TARGET_LOOP
        from laptime.store import writable
        from laptime.verbs.bench.planning import plan

        if self.trace is not None:
            writable.folder(self.trace, "--trace")
        if TARGET_LOOP in program.words:
            batch = None if self.batch is None else [self.batch]
            plan(BenchRequest(targets=[self.program], batch=batch, dtype=[self.dtype], device=self.device))
            return
        for name in OF_TARGETS:
            if name in self.origins:
                why = f"{self.program} is a script: it chooses its own {name}"
                raise UsageError(f"--{name} is for targets", why=why, next=f"laptime profile {self.program}")
