"""What a shell may complete besides words and options: targets, runs, optimizations, backends.

Imported by the files of commands, so nothing is imported here before a shell asks. A completion that fails
offers nothing: an error in the middle of a typed line helps nobody.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from laptime.kit import registry

if TYPE_CHECKING:
    import click

Complete = Callable[["click.Context", "click.Parameter", str], list[str]]

NEWEST = 50
"""Runs that are offered."""


def targets(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Forms (`torchvision:`), or the names of a form that is typed already; and files.

    No framework is imported: its names are asked only of the kind whose form stands there.
    """
    kind, colon, _ = typed.partition(":")
    if not colon:
        return _files(typed) + _beginning(typed, (f"{name}:" for name in registry.names("targets")))
    with contextlib.suppress(Exception):
        return _beginning(typed, registry.load("targets", kind).names())
    return []


def runs(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """`last`, names and ids of the newest stored runs."""
    with contextlib.suppress(Exception):
        from laptime.store import index

        listed = index.listing(limit=NEWEST)[0]
        names = (line.name for line in listed if line.name)
        return _beginning(typed, ["last", "last~1", *names, *(line.id for line in listed)])
    return []


def words(known: Iterable[str]) -> Complete:
    """Words that there are."""
    return lambda context, parameter, typed: _beginning(typed, known)


def extensions(room: str) -> Complete:
    """Names of a room's extensions, several of them separated by commas."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
        before, comma, word = typed.rpartition(",")
        names = registry.entries(room) if room == "model_changes" else registry.names(room)
        return [f"{before}{comma}{name}" for name in _beginning(word, names)]

    return complete


def _beginning(typed: str, words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if word.startswith(typed)})


def _files(typed: str) -> list[str]:
    """Scripts, models and folders below what is typed."""
    return list(_paths(typed))


def _paths(typed: str) -> Iterator[str]:
    from pathlib import Path

    folder = typed.rpartition("/")[0]
    with contextlib.suppress(OSError):
        for path in sorted(Path(folder or ("/" if typed.startswith("/") else ".")).iterdir()):
            name = f"{folder}/{path.name}" if "/" in typed else path.name
            if name.startswith(typed) and not path.name.startswith("."):
                if path.is_dir():
                    yield f"{name}/"
                elif path.suffix in (".py", ".onnx"):
                    yield name
