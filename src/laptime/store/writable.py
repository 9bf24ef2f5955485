"""Whether a file or a folder can be written, asked before anything is measured."""

import os
import tempfile
from pathlib import Path

from laptime.kit.errors import UsageError


def file(path: Path, option: str = "-o") -> Path:
    """The path, if a file can be written there. option: how the path is typed.
    Raises UsageError: it cannot, and why."""
    if path.is_dir():
        raise _refuse(path, option, "it is a folder")
    if path.exists():
        if not os.access(path, os.W_OK):
            raise _refuse(path, option, "no permission to write it")
        if not path.is_file():  # a pipe, /dev/stdout: nothing is put beside it
            return path
    return _in(path, option, path.resolve().parent)


def folder(path: Path, option: str) -> Path:
    """The path of a folder, if it is one that takes files, or can be made. option: how the path is typed.
    Raises UsageError: it is neither, and why."""
    there = path.expanduser().absolute()
    while not there.exists():
        there = there.parent
    return _in(path, option, there)


def _in(path: Path, option: str, parent: Path) -> Path:
    """The path, if its folder takes a file."""
    if not parent.is_dir():
        raise _refuse(
            path, option, f"{parent} is a file" if parent.exists() else f"there is no folder {path.parent}"
        )
    try:
        # Permissions alone do not say: to root, and on file systems that take no files, all seem writable.
        with tempfile.TemporaryFile(dir=parent):
            return path
    except OSError as error:
        raise _refuse(path, option, f"no file can be made in {parent}: {error.strerror or error}") from error


def _refuse(path: Path, option: str, why: str) -> UsageError:
    parent = path.parent
    return UsageError(
        f"{path} cannot be written",
        why=why,
        next=f"{option} {Path('/tmp') / path.name}"  # noqa: S108, advice
        if parent.exists()
        else f"mkdir -p {parent}",
    )
