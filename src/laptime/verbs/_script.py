"""A user's script started under hooks, watched until it ends, and what it left behind."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from laptime import targets
from laptime.instrument.result import Ended, Observed
from laptime.instrument.settings import VARIABLE, Settings
from laptime.kit.clock import SystemClock
from laptime.kit.errors import Died, Hung, LaptimeError, TargetError, Unavailable, UsageError, UserCodeError
from laptime.kit.text import closest
from laptime.launch.hooked import environment
from laptime.records.run import Subject

if TYPE_CHECKING:
    from laptime.verbs.profile import ProfileRequest

GRACE = 20.0
"""Seconds that a script may take to end: after all is observed, or after Ctrl-C."""
_LOOK = 0.2
_OURS = {"-o", "--output", "--json", "--steps", "--warmup", "--wait", "--trace", "--no-save", "--timeout"}
"""Options that people write behind the script, where they are the script's."""


@dataclass(frozen=True)
class Program:
    """What is run: words behind `python -m laptime.instrument`, and its name for the report."""

    words: list[str]
    subject: Subject
    python: str


@dataclass(frozen=True)
class Outcome:
    """How it went.

    Attributes:
        observed: one a process, those with steps first, by rank.
        status: exit status; negative is a signal.
        interrupted: by Ctrl-C here. hung: by its timeout.
    """

    observed: list[Observed] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    status: int = 0
    interrupted: bool = False
    hung: float | None = None


def resolve(request: ProfileRequest) -> Program:
    """What the request's program is: a module, a script, a command written in Python, or a target.

    Raises:
        UsageError: none of them.
    """
    python = request.python or sys.executable
    if shutil.which(python) is None:
        raise UsageError(
            f"there is no interpreter {python}", why="--python names one", next="--python $(which python)"
        )
    name, arguments = request.program, request.arguments
    if request.module:
        return Program(["-m", name, *arguments], Subject(target=f"-m {name}", source="module"), python)
    path = Path(name)
    if path.is_file() or (path / "__main__.py").is_file():
        return Program([name, *arguments], _of_file(path), python)
    command = _command(name, python)
    if command is not None:
        return Program([str(command), *arguments], _of_file(command, name), python)
    if path.suffix == ".py":
        raise _no_script(path)
    recipe = targets.parse(name)
    if arguments:
        raise UsageError(
            f"{name} takes no arguments: {shlex.join(arguments)}",
            why="it is a target, no script; options of laptime come before it",
            next=f"laptime profile --batch 8 {name}",
        )
    loop = [f"--{key}={getattr(request, key)}" for key in ("batch", "dtype", "device")]
    words = ["-m", "laptime.launch.repeat", name, *loop]
    return Program(words, Subject(target=name, source=recipe.source, sha256=recipe.sha256), python)


def _of_file(path: Path, name: str = "") -> Subject:
    digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return Subject(target=name or str(path), source=str(path), sha256=digest)


def _command(name: str, python: str) -> Path | None:
    """The Python script behind a command such as `torchrun`, beside the interpreter or on the path."""
    beside = str(Path(python).parent) if os.sep in python else ""
    found = shutil.which(name, path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if not found or os.sep in name or ":" in name:
        return None
    with open(found, "rb") as file:  # noqa: PTH123
        first = file.readline(500)
    return Path(found) if first.startswith(b"#!") and b"python" in first else None


def _no_script(path: Path) -> UsageError:
    there = [str(each) for each in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = closest(str(path), there)
    return TargetError(
        f"there is no script {path}",
        why=f"{len(there)} other Python files are in that folder"
        if there
        else f"looked in {path.parent.resolve()}",
        next=f"laptime profile {near}" if near else "laptime profile SCRIPT.py   or   -m MODULE",
    )


def execute(
    program: Program,
    *,
    settings: Settings,
    timeout: float,
    output_to_stderr: bool,
    output: Path | None = None,
    variables: dict[str, str] | None = None,
) -> Outcome:
    """Run it to its end, or until all is observed.

    Args:
        output: a file that gets all that it prints. variables: of its environment, beside ours.
    """
    with output.open("wb") if output else nullcontext(2 if output_to_stderr else None) as shown:
        process = _started(program, settings, shown, subprocess.STDOUT if output else None, variables or {})
    outcome = Outcome()
    try:
        outcome = _watched(process, Path(settings.folder), timeout)
    except KeyboardInterrupt:
        _interrupt(process)
        outcome = Outcome(interrupted=True)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # loaders and servers that it has left
        status = process.wait()
    return replace(_collected(Path(settings.folder), outcome), status=status)


def _started(
    program: Program, settings: Settings, stdout: Any, stderr: Any, variables: dict[str, str]
) -> subprocess.Popen[bytes]:
    folder, variables = Path(settings.folder), {**variables, VARIABLE: settings.text()}
    return subprocess.Popen(
        [program.python, "-m", "laptime.instrument", *program.words],
        stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
        stdout=stdout,
        stderr=stderr,
        env=environment(folder, program.python, "laptime.instrument", variables),
        process_group=0,  # Ctrl-C is for us: we hand it on
    )


def _watched(process: subprocess.Popen[bytes], folder: Path, timeout: float) -> Outcome:
    """Wait for the end: the script's own, GRACE after all is observed, or its timeout."""
    end = SystemClock.now() + timeout
    observed_at: float | None = None
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_LOOK)
            return Outcome()
        now = SystemClock.now()
        if observed_at is None and any(folder.glob("observed-*.json")):
            observed_at = now
        if observed_at is not None and now > observed_at + GRACE and _is_all_observed(folder):
            return Outcome()
        if now > end:
            _interrupt(process)
            return Outcome(hung=timeout)


def _is_all_observed(folder: Path) -> bool:
    seen = _observed(folder)
    return len([each for each in seen if each.complete]) >= seen[0].world


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C for the whole group, as a terminal would send it; a second one here ends it at once."""
    with suppress(ProcessLookupError, subprocess.TimeoutExpired, KeyboardInterrupt):
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=GRACE)


def _observed(folder: Path) -> list[Observed]:
    seen = [msgspec.json.decode(path.read_bytes(), type=Observed) for path in folder.glob("observed-*.json")]
    return sorted(seen, key=lambda each: (not each.source, not each.complete, each.rank))


def _collected(folder: Path, outcome: Outcome) -> Outcome:
    ended = [msgspec.json.decode(path.read_bytes(), type=Ended) for path in folder.glob("ended-*.json")]
    return replace(outcome, observed=_observed(folder), ended=ended)


def failure_of(program: Program, outcome: Outcome) -> LaptimeError | None:
    """Why the script has failed, None when it has not. Its traceback was shown when it happened."""
    name = program.subject.target
    if outcome.hung is not None:
        return Hung(
            f"{name} was still running after {outcome.hung:g} s",
            why="its steps are slow, or it waits for something that never comes",
            next=f"--timeout {outcome.hung * 4:g}s   or fewer steps: --wait 1 --warmup 1 --steps 2",
        )
    if outcome.interrupted or any(ended.how == "stopped" for ended in outcome.ended):
        return None
    raised = next((ended for ended in outcome.ended if ended.how == "raised"), None)
    if raised is not None:
        return _raised(name, raised, program)
    if outcome.status < 0:
        what = f"{name} was ended by {signal.Signals(-outcome.status).name}"
        return Died(what, why="native code crashed, or memory ran out", next="python -X faulthandler ...")
    if outcome.status > 0:
        what = f"{name} ended with status {outcome.status}"
        ours = [word for word in program.words if word.partition("=")[0] in _OURS]
        if outcome.status == 2 and ours:  # argparse's way to refuse an option
            next_step = f"options of laptime come before the script: laptime profile {ours[0]} ... {name}"
            return UserCodeError(what, why=f"it was given {ours[0]}", next=next_step)
        return UserCodeError(what, why="sys.exit says so", next="run it without laptime first")
    return None


def _raised(name: str, raised: Ended, program: Program) -> LaptimeError:
    if raised.error.startswith(("ModuleNotFoundError", "ImportError")) and "torch" in raised.error:
        return Unavailable(
            f"{name} could not import torch",
            why=f"{raised.error}, in {program.python}",
            next="laptime profile --python $(which python) ...   takes the interpreter that has it",
        )
    return UserCodeError(f"{name} failed", why=raised.error, next="its traceback is above")


def no_step(program: Program, outcome: Outcome) -> LaptimeError:
    """The error of a script that ended well without a step: what was looked for, and what came."""
    name = program.subject.target
    if outcome.interrupted:
        return UserCodeError(f"{name} was interrupted before its first step", next="give it more time")
    if any(seen.tensorflow for seen in outcome.observed):
        return UsageError(
            f"no step was found in {name}",
            why="a step of a TensorFlow program is a call of a tf.function, as in Keras's fit and predict",
            next="compile the step: @tf.function, or model.compile(run_eagerly=False)",
        )
    if not any(seen.torch for seen in outcome.observed):
        return UsageError(
            f"no step was found in {name}: it does not use torch",
            why="a step is an optimizer's step, a batch of a DataLoader, or a call of an nn.Module",
            next="laptime profile the script that trains, or -m its module",
        )
    seen = outcome.observed[0].seen
    came = ", ".join(f"{count} {kind}" for kind, count in seen.items()) or "none of them"
    return UsageError(
        f"no step was found in {name}",
        why="looked for steps of a torch optimizer, batches of a DataLoader, calls of an nn.Module, on the "
        f"main thread of the script and the ranks of torchrun; came: {came}",
        next="give it more than one batch   or   --step-by loader",
    )
