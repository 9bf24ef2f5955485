"""`tune`: an unmodified training script made faster, with proof, handed back as a patch.

request ── diagnose ── offered ── ladder (race, gate, keep or drop, diagnose anew) ── leave one out
                                                                                          │
        Run <── verified patch <── base and final measured afresh, in new processes <─────┘
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from laptime.records.plan import Origin
from laptime.records.run import Run
from laptime.records.tuning import Diagnosis, Measured, Rung


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """What `laptime tune` can be asked.

    Attributes:
        program, arguments, module, python: as for `profile`.
        budget: seconds of the session at most.
        steps: timed steps in a block; 0 finds out.
        allow: numerics classes beyond the default ones: algorithm.
        strict: leave out `random` and `precision`.
        only, skip: names of optimizations.
        extra: files with further optimizations.
        goal: what is to become better. max_memory: bytes that a trial may use at most; None: what the
            machine has free.
        certify: corrected error rates.
        resume: go on with the last session of the same script and arguments.
        dry_run: diagnose only, and say what would be tried and how long.
        patch: where the patch goes; None: beside the script, as SCRIPT.laptime.patch.
        timeout: seconds that one trial may take at most.
    """

    program: str
    arguments: list[str] = field(default_factory=list)
    module: bool = False
    python: str = ""
    budget: float = 600.0
    steps: int = 0
    allow: list[str] = field(default_factory=list)
    strict: bool = False
    only: list[str] = field(default_factory=list)
    skip: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    goal: Literal["throughput", "memory"] = "throughput"
    max_memory: int | None = None
    certify: bool = False
    resume: bool = False
    dry_run: bool = False
    patch: Path | None = None
    step_by: str = ""
    timeout: float = 600.0
    output_to_stderr: bool = True
    quiet: bool = False
    name: str = ""
    save: bool = True
    origins: dict[str, Origin] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a session tells while it runs, each once; one of them is not None.

    Attributes:
        diagnosis: the script as it is, or after a change was kept.
        trying: label of the candidate that is raced now; `rung`: it is decided.
        measured: baseline and final.
        text: what is going on, for the progress bar; done: share of the budget that is used, 0 to 1.
    """

    diagnosis: Diagnosis | None = None
    trying: str = ""
    rung: Rung | None = None
    measured: tuple[Measured, Measured] | None = None
    text: str = ""
    done: float = 0.0


def tune(request: TuneRequest, heard: Callable[[Heard], None] = lambda told: None) -> Run:
    """Make the script faster, and say by how much.

    Returns:
        The run; its `tuning` has the diagnosis, the ladder, the gain and the patch.

    Raises:
        UsageError: there is no such script, or no training step in it. UserCodeError: it failed as it is.
    """
    raise NotImplementedError
