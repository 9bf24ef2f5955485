"""Models that a package knows by name: what `torchvision:NAME` and `timm:NAME` have in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from laptime.kit.errors import TargetError
from laptime.targets import Program, Recipe

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")


def resolve(kind: str, text: str, build: Callable[[str], Program]) -> Recipe:
    """The recipe of `kind:NAME`. Whether package and name exist is seen by the interpreter that builds it.

    Raises:
        TargetError: the name is empty or has characters that no model name has.
    """
    name = text.partition(":")[2]
    if not _NAME.fullmatch(name):
        raise TargetError(
            f"{text!r} names no {kind} model",
            why="a name has letters, digits, '_', '.' and '-'",
            next=f"for example: laptime bench {kind}:resnet18",
        )
    return Recipe(
        target=text,
        kind=kind,
        build=lambda batch: build(name),
        source=source(kind),
        packages=("torch", kind),
    )


def source(kind: str) -> str:
    """Package and version, `torchvision 0.29.2`."""
    try:
        return f"{kind} {version(kind)}"
    except PackageNotFoundError:
        return kind
