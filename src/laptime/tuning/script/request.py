"""The request of a session: the program, the budget, and what may be tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from laptime import targets
from laptime.kit import registry
from laptime.kit.errors import LaptimeError, UsageError
from laptime.launch.script import Program, resolve
from laptime.records.plan import Origin
from laptime.tuning import optimization
from laptime.tuning.candidates import Choice

SHORTEST_LIMIT = 120.0
"""Seconds that a trial may always take."""
LIMIT_SHARE = 0.4
"""Share of the budget that a trial may take: one that hangs or compiles leaves time for the others."""


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """The options of `laptime tune`.

    Attributes:
        program, arguments, module, python: as for `profile`.
        budget: seconds of the session at most.
        steps: timed steps in a block; 0: as many as fill a block well.
        allow: numerics classes beyond the default ones: algorithm.
        strict: leave out the classes `random` and `precision`.
        only, skip: names of optimizations.
        extra: files with further optimizations.
        goal: what to improve. max_memory: bytes that a trial may use at most; None: what the machine has
            free.
        certify: error rates that hold for the whole session.
        resume: go on with the last session of the same script and arguments.
        dry_run: diagnose only, and list what would be tried and how long that takes.
        earlier: results of earlier sessions on this machine order the candidates.
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
    earlier: bool = True
    timeout: float = 600.0
    name: str = ""
    save: bool = True
    origins: dict[str, Origin] = field(default_factory=dict)


def program_of(request: TuneRequest) -> Program:
    """The script of a request. A target of `bench` is refused: it has no loop that could be patched.

    Raises:
        UsageError: there is no such script, or it is a target.
    """
    path = Path(request.program)
    if not request.module and not path.exists() and path.suffix != ".py" and _is_target(request.program):
        raise UsageError(
            f"{request.program} is a model, not a training script",
            why="tune changes a script's loop: its loader, optimizer, precision, compilation",
            next=f"laptime bench --train sgd {request.program}   or   laptime tune train.py",
        )
    return resolve(request.program, request.arguments, is_module=request.module, python=request.python)


def _is_target(text: str) -> bool:
    try:
        targets.parse(text)
    except LaptimeError:
        return False
    return True


def choice_of(request: TuneRequest) -> Choice:
    """The optimizations that a request allows.

    Raises:
        UsageError: a name is no optimization, or a file is none.
    """
    files = {Path(path).stem: path for path in request.extra}
    for path in request.extra:
        optimization.load(path)
    only, skip = _names(request.only, files), _names(request.skip, files)
    return Choice(
        allow=tuple(request.allow),
        strict=request.strict,
        only=(*only, *request.extra) if only else (),
        skip=skip,
        extra=tuple(request.extra),
        goal=request.goal,
    )


def _names(names: list[str], files: dict[str, str]) -> tuple[str, ...]:
    """Names as the catalogue has them. A file of the user may be called by its stem.

    Raises:
        UsageError: one of them is not known.
    """
    chosen = []
    for name in names:
        path = files.get(name, name if name in files.values() else "")
        if not path:
            registry.load("optimizations", name)
        chosen.append(path or name.replace("-", "_"))
    return tuple(chosen)


def resume_terms(request: TuneRequest) -> dict[str, Any]:
    """The options that have to be the same for a session to go on."""
    names = ("allow", "strict", "only", "skip", "extra", "goal", "certify", "step_by")
    return {name: getattr(request, name) for name in names}


def trial_limit(budget: float) -> float:
    """Seconds that one trial may take in a session of this budget."""
    return max(SHORTEST_LIMIT, LIMIT_SHARE * budget)
