"""Other machines: which there are, and how a program is started on one. Starting jobs is the engines' work.

    --on local:3   |   ssh:a,b   |   slurm:PARTITION   |   ray:HOST:PORT

An engine is a file of `engines/`, by the name that stands before the colon."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.kit import registry
from laptime.kit.errors import UsageError

NODE = ("-m", "laptime.apps.node")  # the program of the other end, for a Python that has laptime


@dataclass(frozen=True)
class Machine:
    name: str  # as its engine knows it; no two have the same
    words: tuple[str, ...]  # that start a program there
    # machines of one place disturb each other: they are asked in turn if speed is compared
    place: str = ""


def machines(text: str) -> list[Machine]:
    """The machines that `--on` names. Raises UsageError: there is no such engine, or it finds no machine."""
    name, _, rest = text.partition(":")
    found: list[Machine] = registry.load("engines", name).machines(rest)
    twice = {each.name for each in found if sum(other.name == each.name for other in found) > 1}
    if not found or twice:
        raise UsageError(
            f"--on {text} names {', '.join(sorted(twice)) + ' twice' if twice else 'no machine'}",
            next="--on local:2, --on ssh:HOST,HOST, --on slurm or --on ray",
        )
    return found
