"""The request of `laptime tune script`: the program, the budget, and what may be tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from laptime.kit import registry
from laptime.kit.errors import Hung, LaptimeError, OutOfMemory, Unavailable, UsageError, UserCodeError
from laptime.kit.options import Option
from laptime.kit.text import closest
from laptime.records.plan import STEPS, Module, Name, Origin, Save
from laptime.tuning.options import Budget, Certify, DryRun, MaxMemory, Resume, Timeout, only, skip
from laptime.tuning.search.evaluator import TrialFailed

if TYPE_CHECKING:  # `laptime tune --help` reads this file
    from laptime.launch.script import Program
    from laptime.tuning.candidates import Choice

SHORTEST_LIMIT = 120.0  # seconds that a trial may always take
LIMIT_SHARE = 0.4
"""Share of the budget that a trial may take: one that hangs or compiles leaves time for the others."""


@dataclass(frozen=True, kw_only=True)
class TuneRequest:
    """The request of `laptime tune script`."""

    # program, arguments, module, python: as for `profile`
    program: str
    arguments: list[str] = field(default_factory=list)
    module: Module = False
    budget: Budget = 600.0
    # 0 is as many as fill a block well
    steps: Annotated[
        int, Option("Steps in a timed block. [default: chosen from the length of a step]", least=1)
    ] = 0
    allow: Annotated[
        list[Literal["algorithm"]],
        Option(
            "Also try changes of this class: algorithm changes batch size and learning rate.", repeatable=True
        ),
    ] = field(default_factory=list)
    strict: Annotated[bool, Option("Try no change that alters random numbers or precision.")] = False
    only: Annotated[list[str], only("optimizations")] = field(default_factory=list)
    skip: Annotated[list[str], skip("optimizations")] = field(default_factory=list)
    extra: Annotated[
        list[str],
        Option(
            "Also try the optimization in this file. Repeatable.", "FILE.py", flags="--with", repeatable=True
        ),
    ] = field(default_factory=list)
    goal: Annotated[Literal["throughput", "memory"], Option("What to improve.")] = "throughput"
    max_memory: MaxMemory = None  # bytes; None is what the machine has free
    certify: Certify = False
    resume: Resume = False
    # results of earlier sessions on this machine order the candidates
    earlier: Annotated[bool, Option("Ignore results of earlier sessions when ordering changes.")] = True
    dry_run: DryRun = False
    patch: Annotated[
        Path | None, Option("File to write the patch to. [default: SCRIPT.laptime.patch]", "PATH")
    ] = None
    step_by: Annotated[
        str, Option("What marks a step. [default: the first of these that the script has]", choices=STEPS)
    ] = ""
    python: Annotated[str, Option("Interpreter that runs the script. [default: laptime's own]", "PATH")] = ""
    timeout: Timeout = 600.0
    name: Name = ""
    save: Save = True
    origins: dict[str, Origin] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse a typing mistake before it costs ten minutes.
        Raises UsageError: no optimization has this name, or `only` and `skip` both have it."""
        known = [*registry.names("optimizations"), *(Path(path).stem for path in self.extra), *self.extra]
        for option, names in (("--only", self.only), ("--skip", self.skip)):
            for name in names:
                if name.replace("-", "_") not in known and name not in known:
                    near = closest(name, known)
                    raise UsageError(
                        f"{option}: no optimization is called {name!r}",
                        why=f"known: {', '.join(known)}",
                        next=f"did you mean {option} {near}?" if near else "laptime tune script --help",
                    )
        if both := [name for name in self.only if name in self.skip]:
            raise UsageError(
                f"{both[0]} is given to both --only and --skip",
                why="--only tries it and --skip leaves it out",
                next=f"leave out one of them: --only {','.join(self.only)}",
            )


def program_of(request: TuneRequest) -> Program:
    """The script of a request. A target of `bench` is refused: it has no loop that could be patched.
    Raises UsageError: there is no such script, or it is a target."""
    from laptime import targets
    from laptime.launch.script import resolve

    path = Path(request.program)
    if not request.module and not path.exists() and path.suffix != ".py":
        try:
            targets.parse(request.program)
        except LaptimeError:
            pass  # a file that is not there
        else:
            raise UsageError(
                f"{request.program} is a model, not a training script",
                why="tune changes a script's loop: its loader, optimizer, precision, compilation",
                next=f"laptime bench --train sgd {request.program}   or   laptime tune train.py",
            )
    return resolve(request.program, request.arguments, is_module=request.module, python=request.python)


def choice_of(request: TuneRequest) -> Choice:
    """The optimizations that a request allows.
    Raises UsageError: a name is no optimization, or a file is none."""
    from laptime.tuning import optimization
    from laptime.tuning.candidates import Choice

    files = {Path(path).stem: path for path in request.extra}
    for path in request.extra:
        optimization.load(path)

    def find_name(name: str) -> str:
        """The name as the catalogue has it. A file of the user may be called by its stem."""
        path = files.get(name, name if name in request.extra else "")
        if not path:
            registry.load("optimizations", name)
        return path or name.replace("-", "_")

    only, skip = tuple(map(find_name, request.only)), tuple(map(find_name, request.skip))
    return Choice(
        allow=tuple(request.allow),
        strict=request.strict,
        only=(*only, *request.extra) if only else (),
        skip=skip,
        extra=tuple(request.extra),
        goal=request.goal,
    )


def trial_limit(budget: float) -> float:
    """Seconds that one trial may take in a session of this budget."""
    return max(SHORTEST_LIMIT, LIMIT_SHARE * budget)


# Refusals


_MISSING_DATA = ("FileNotFoundError", "Dataset not found", "download=True", "URLError", "NotADirectoryError")


def refusal(name: str, failed: TrialFailed) -> LaptimeError:
    """The error of a script that does not train as it is."""
    why = failed.why
    if failed.kind == "hung":
        return Hung(f"{name} did not finish its first steps", why=why, next="--timeout 30m")
    if failed.kind == "memory":
        return OutOfMemory(f"{name} needs more memory than its limit", why=why, next="--max-memory 8GB")
    if failed.kind == "crashed":
        return _tell_crash(name, why)
    return UsageError(
        f"no training was found in {name}",
        why=f"{why}; a training step is a backward pass and the step of a torch optimizer",
        next="tune a script that trains for 20 steps or more, or profile this one",
    )


def _tell_crash(name: str, why: str) -> LaptimeError:
    if why.startswith("ModuleNotFoundError: No module named 'torch'"):
        next_step = "--python PYTHON   takes the interpreter that has it"
        return Unavailable(f"{name} could not import torch", why=why, next=next_step)
    missing = (f"No module named {name}", f"module named {name!r}")
    if why.startswith("ImportError: ") and any(text in why for text in missing):
        searched, next_step = "modules are searched from this folder", f"python -m {name}   has to find it"
        return UsageError(f"there is no module {name}", why=f"{why}: {searched}", next=next_step)
    what, next_step = "failed", f"run it without laptime first: python {name}"
    if why.startswith("EOFError"):
        what = "reads from standard input"
        next_step = "pass the input as arguments: a trial has no standard input"
    elif why.startswith("ended with status 2"):  # argparse's way to refuse an option
        what = "did not take its arguments"
        next_step = f"options of laptime come before the script: laptime tune -o report.html {name}"
    elif any(word in why for word in _MISSING_DATA):
        what = "did not find its data"
        next_step = "run it once without laptime from this folder: trials run in the current folder"
    return UserCodeError(f"{name} {what}", why=why, next=next_step)


def several_ranks(name: str) -> LaptimeError:
    """A script that starts its own ranks: laptime cannot time them together."""
    return UsageError(
        f"{name} starts other processes that train",
        why="only the process of the script is timed; its child processes run without hooks",
        next=f"laptime tune torchrun --nproc-per-node 2 {name}   or tune one process and use its recipe",
    )
