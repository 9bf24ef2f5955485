"""Other machines: which there are, and how a program is started on one. Starting jobs is the engines' work.

    --on local:3   |   ssh:a,b   |   slurm:PARTITION   |   ray:HOST:PORT

An engine is a file of `engines/`, by the name that stands before the colon."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.kit.text import some
from laptime.process.program import last_line

if TYPE_CHECKING:
    from laptime.launch.fleet.bundle import Bundle

NODE = ("-m", "laptime.apps.node")  # the program of the other end, for a Python that has laptime


@dataclass(frozen=True)
class Machine:
    name: str  # as its engine knows it; no two have the same
    words: tuple[str, ...]  # that start a program there
    # machines of one place disturb each other: they are asked in turn if speed is compared
    place: str = ""
    is_here: bool = False  # it has the files of this machine
    code: Bundle | None = None  # what it needs of them otherwise


def ask(words: Sequence[str], seconds: float, fails: str, next: str) -> str:
    """The output of a program that knows the machines. fails: what is said if it does not.
    Raises UsageError: it is not there, fails, or takes longer."""
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
    except FileNotFoundError:
        raise UsageError(f"there is no program {words[0]} on this machine", why=fails, next=next) from None
    except subprocess.TimeoutExpired:
        raise UsageError(fails, why=f"no answer came within {seconds:.0f} s", next=next) from None
    if answer.returncode:
        raise UsageError(fails, why=last_line(answer.stderr)[:200] or f"{words[0]} failed", next=next)
    return answer.stdout


def machines(
    text: str, only: str = "", requests: Sequence[Struct] = (), say: Callable[[str], object] = str
) -> list[Machine]:
    """The machines that `--on` names, with the user's files that requests name. only: patterns of names, with
    commas. say: hears what is sent.
    Raises UsageError: there is no such engine, it finds no machine, or none of such a name, or files cannot
    be sent. Nothing was started."""
    if not text:
        raise UsageError("--machines says which of many", why="--on names them", next="--on slurm")
    name, _, rest = text.partition(":")
    found: list[Machine] = registry.load("engines", name).machines(rest)
    twice = {each.name for each in found if sum(other.name == each.name for other in found) > 1}
    if not found or twice:
        raise UsageError(
            f"--on {text} names {', '.join(sorted(twice)) + ' twice' if twice else 'no machine'}",
            next="--on local:2, --on ssh:HOST,HOST, --on slurm or --on ray",
        )
    patterns = [pattern.strip() for pattern in only.split(",")] if only else ["*"]
    chosen = [each for each in found if any(fnmatchcase(each.name, pattern) for pattern in patterns)]
    if not chosen:
        why = f"there are {some([each.name for each in found], 5)}"
        raise UsageError(f"--machines {only} matches none", why=why, next=f"--machines {found[0].name}")
    from laptime.launch.fleet.bundle import pack

    if chosen[0].is_here or (code := pack(requests)) is None:
        return chosen
    say(code.sentence)
    return [replace(each, code=code) for each in chosen]
