"""A user's script under laptime's hooks: found by its name, run, and what its processes observed."""

import hashlib
import os
import shlex
import shutil
import signal
import sys
import zipfile
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import DEVNULL, STDOUT
from typing import Any

import msgspec

from laptime import targets
from laptime.instrument.messages import PARENT, VARIABLE, Ended, Observed, Settings
from laptime.kit.errors import TargetError, UsageError
from laptime.kit.text import closest
from laptime.launch.interpreter import lending_path
from laptime.probes.others import OthersMeter
from laptime.process.program import Process, unwound_by_sigterm
from laptime.records.run import Subject

GRACE = 20.0  # seconds that a script may take to end: after all is observed, or after Ctrl-C
_LOOK = 0.2
TARGET_LOOP = "laptime.launch.target_loop"  # the module that calls a target again and again


@dataclass(frozen=True)
class Program:
    """A script to run. words: its name and arguments, as Python's command line has them. subject: what
    reports call it. python: its interpreter."""

    words: list[str]
    subject: Subject
    python: str


@dataclass(frozen=True)
class Outcome:
    """How a script ran."""

    # what each process observed, those with steps first, then by rank
    observed: list[Observed] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)  # how each process ended
    status: int = 0  # exit status; negative is a signal
    interrupted: bool = False  # by Ctrl-C
    hung: float | None = None  # the timeout in seconds that it ran into, None when it did not
    # CPUs that other programs used meanwhile, on average; None if that is not known
    others: float | None = None


def resolve(
    name: str,
    arguments: list[str],
    *,
    is_module: bool = False,
    python: str = "",
    target_loop: Sequence[str] = (),
    verb: str = "profile",
) -> Program:
    """Resolve a name to a module, a script, a command written in Python, or a target. python: "" is
    laptime's own. target_loop: options of `launch.target_loop`, which calls a target again and again. verb:
    what is typed next.
    Raises UsageError: none of them."""
    python = python or sys.executable
    if shutil.which(python) is None:
        what = f"there is no Python {python}"
        raise UsageError(what, why="--python must name one", next=f"--python {sys.executable}")
    if is_module:
        return Program(["-m", name, *arguments], Subject(target=f"-m {name}", source="module"), python)
    path = Path(name)
    if path.is_file() or (path / "__main__.py").is_file():
        return Program([name, *arguments], _of_file(path), python)
    command = _command(name, python)
    if command is not None:
        return Program([str(command), *arguments], _of_file(command, name), python)
    if path.suffix == ".py":
        others = [str(file) for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
        near, why = closest(str(path), others), f"looked in {path.parent.resolve()}"
        why = f"{len(others)} other Python files are in that folder" if others else why
        step = f"laptime {verb} {near}" if near else "name a script, or -m and a module"
        raise TargetError(f"there is no script {path}", why=why, next=step)
    recipe = targets.parse(name)
    if arguments:
        what, why = f"{name} takes no arguments: {shlex.join(arguments)}", "it is a target, not a script"
        why += "; laptime's options come before it"
        raise UsageError(what, why=why, next=f"laptime profile --batch 8 {name}")
    words = ["-m", TARGET_LOOP, name, *target_loop]
    return Program(words, Subject(target=name, source=recipe.source, sha256=recipe.sha256), python)


def _of_file(path: Path, name: str = "") -> Subject:
    content = path.read_bytes() if path.is_file() else b""
    if b"\0" in content[:4096] and path.suffix != ".pyc" and not zipfile.is_zipfile(path):
        what = f"{path} is not a Python script"
        raise TargetError(what, why="it holds binary data", next="load.py: def build(): return MODEL, INPUTS")
    digest = hashlib.sha256(content).hexdigest() if content else ""
    return Subject(target=name or str(path), source=str(path), sha256=digest)


def _command(name: str, python: str) -> Path | None:
    """The Python script behind a command such as `torchrun`, beside the interpreter or on the path."""
    beside = str(Path(python).parent) if os.sep in python else ""
    command = shutil.which(name, path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if not command or os.sep in name or ":" in name:
        return None
    with Path(command).open("rb") as file:
        first = file.readline(500)
    return Path(command) if first.startswith(b"#!") and b"python" in first else None


def execute(
    program: Program,
    *,
    settings: Settings,
    timeout: float,
    output_to_stderr: bool,
    output: Path | None = None,
    variables: dict[str, str] | None = None,
    ranks: int = 0,
    grace: float = GRACE,
) -> Outcome:
    """Run it to its end, or until all is observed. output: a file that gets all that it prints. variables: of
    its environment, beside laptime's own. ranks: its processes here that train; 0: all of its job. grace:
    seconds that it may take to end after Ctrl-C."""
    folder = Path(settings.folder)
    with output.open("wb") if output else nullcontext(2 if output_to_stderr else None) as stdout:
        process = start(
            "laptime.instrument",
            program.words,
            python=program.python,
            folder=folder,
            variables={**(variables or {}), VARIABLE: settings.text()},
            stdin=DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
            stdout=stdout,
            stderr=STDOUT if output else None,
            marked=True,  # torchrun's ranks leave the group
        )
    given, meter = 0.0, OthersMeter()
    try:
        with unwound_by_sigterm():
            outcome = _watch(process, folder, timeout, ranks)
        # While its children live: those that it leaves behind would be others.
        outcome = replace(outcome, others=meter.cpus())
        given = grace if outcome.hung is not None else 0.0
    except KeyboardInterrupt:
        outcome, given = Outcome(interrupted=True), grace
    finally:
        with suppress(KeyboardInterrupt):  # a second Ctrl-C ends it at once
            process.end(grace=given, first=signal.SIGINT)
    ended = [msgspec.json.decode(path.read_bytes(), type=Ended) for path in folder.glob("ended-*.json")]
    return replace(outcome, observed=_read_observed(folder), ended=ended, status=process.end())


def _watch(process: Process, folder: Path, timeout: float, ranks: int) -> Outcome:
    """Wait until the script ends, its timeout passes, or GRACE has passed since all was observed."""
    observed_at: float | None = None
    while not process.ends_within(_LOOK):
        if observed_at is None and any(folder.glob("observed-*.json")):
            observed_at = process.seconds
        if observed_at is not None and process.seconds > observed_at + GRACE:
            processes = _read_observed(folder)
            if sum(process.complete for process in processes) >= (ranks or processes[0].world):
                break
        if process.seconds > timeout:
            return Outcome(hung=timeout)
    return Outcome()


def _read_observed(folder: Path) -> list[Observed]:
    files = folder.glob("observed-*.json")
    processes = [msgspec.json.decode(path.read_bytes(), type=Observed) for path in files]
    return sorted(processes, key=lambda process: (not process.source, not process.complete, process.rank))


# The start of a script under hooks; its ranks get them, too.


def start(
    module: str, words: list[str], *, python: str, folder: Path, variables: dict[str, str], **options: Any
) -> Process:
    """Start `python -m MODULE WORDS`; the module stands in for the interpreter's own way to run a script.
    folder: for the files that this takes. variables: of its environment, beside laptime's own. options: as
    for `Popen`."""
    environ = environment(folder, python, module, {**variables, PARENT: str(os.getpid())})
    return Process([python, "-m", module, *words], keeps_terminal=True, env=environ, **options)


def environment(folder: Path, python: str, module: str, variables: dict[str, str]) -> dict[str, str]:
    """The variables of such a script: with them, `torchrun` starts its ranks by `python -m MODULE`, too."""
    environ = {**os.environ, **variables}
    # The profiler's library would print remarks among the script's.
    environ.setdefault("KINETO_LOG_LEVEL", "99")
    if python != sys.executable:
        # Another interpreter finds this package, and none of the packages beside it.
        environ["PYTHONPATH"] = lending_path()
    real = os.environ.get("PYTHON_EXEC") or shutil.which(python) or python
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nexport {PARENT}=$PPID\nexec {shlex.quote(real)} -m {module} "$@"\n')
    wrapper.chmod(0o755)
    environ["PYTHON_EXEC"] = str(wrapper)
    return environ
