"""Code for several targets: models that a package knows by name (`torchvision:NAME`, `timm:NAME`), and models
that lie in a file of their own (`FILE.onnx`, `FILE.xml`)."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from laptime.kit.errors import TargetError, UserCodeError
from laptime.kit.text import closest
from laptime.probes.machine import find_version
from laptime.targets import Program, Recipe

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")


def resolve_name(kind: str, text: str, build: Callable[[str], Program], example: str = "resnet18") -> Recipe:
    """The recipe of `kind:NAME`. Whether package and name exist is seen by the interpreter that builds it.
    Raises TargetError: the name is empty or has characters that no model name has."""
    name = text.partition(":")[2]
    if not _NAME.fullmatch(name):
        raise TargetError(
            f"{text!r} is not the name of a {kind} model",
            why="a name has letters, digits, '_', '.' and '-'",
            next=f"for example: laptime bench {kind}:{example}",
        )
    return Recipe(
        target=text,
        kind=kind,
        build=lambda batch: build(name),
        source=source(kind),
        packages=("torch", kind),
    )


def none_known() -> list[str]:
    """None: such targets are the user's own."""
    return []


def source(kind: str) -> str:
    """Package and version, `torchvision 0.29.2`."""
    return f"{kind} {find_version(kind) or ''}".rstrip()


# A file.


def unloadable(text: str, error: Exception, next: str = "") -> UserCodeError:
    """The error for a file that a framework cannot load, with the first line of what it said."""
    why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return UserCodeError(f"{text} cannot be loaded", why=why, next=next)


def resolve_file(text: str, *, kind: str, backend: str, parts: tuple[str, ...] = ()) -> Recipe:
    """The recipe of a model file; whether it is one is seen when a backend reads it. backend: reads it unless
    another is asked for. parts: suffixes of files that belong to it and must lie beside it (`.bin`).
    Raises TargetError: it, or a file that belongs to it, does not exist or cannot be read."""
    path = Path(text).expanduser()
    files = [path, *(path.with_suffix(suffix) for suffix in parts)]
    for file in files:
        if not file.is_file():
            raise _missing(file, path)
    try:
        digest = hashlib.sha256()
        for file in files:
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    except OSError as error:
        raise TargetError(f"{text} cannot be read", why=str(error)) from error

    def build(batch: int) -> Program:
        what, next = f"{text} is not a Python program", f"laptime bench {text} --backend {backend}"
        raise TargetError(what, why=f"a {path.suffix} file is run by {backend} and its like", next=next)

    return Recipe(
        target=text,
        kind=kind,
        build=build,
        backend=backend,
        source=text,
        sha256=digest.hexdigest(),
        file=str(path.resolve()),
    )


def _missing(file: Path, path: Path) -> TargetError:
    if file != path:
        return TargetError(
            f"there is no file {file}", why=f"it holds the weights of {path.name}", next="copy it there, too"
        )
    if path.is_dir():
        return TargetError(f"{path} is a folder", why="a target is a model file")
    there = [entry.name for entry in path.parent.glob(f"*{path.suffix}")] if path.parent.is_dir() else []
    near = closest(path.name, there)
    where = "the current folder" if str(path.parent) == "." else str(path.parent)
    return TargetError(
        f"there is no file {path}",
        why=f"looked in {where}",
        next=f"did you mean {path.parent / near}?" if near else f"name a {path.suffix} file",
    )
