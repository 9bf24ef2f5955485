"""Frameworks as packages: their versions without importing them, their import, the environment they read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from laptime.kit.errors import Unavailable


def first(wheels: Iterable[str]) -> dict[str, str]:
    """The first of these packages that is installed, with its version; {} without any."""
    for wheel in wheels:
        try:
            return {wheel: version(wheel)}
        except PackageNotFoundError:
            continue
    return {}


def versions(wheels: Mapping[str, Iterable[str]], *, needs: str) -> dict[str, str]:
    """Versions of what is installed, by name; {} without the one that the others need.

    Args:
        wheels: for every name the packages that can bring it, the usual one first.
    """
    installed = {name: number for name, packages in wheels.items() for number in first(packages).values()}
    return installed if needs in installed else {}


def import_framework(package: str, *, next: str) -> None:
    """Import it, so that import time and load time can be told apart.

    Raises:
        Unavailable: it is not installed or does not import; `next` says how to install it.
    """
    try:
        import_module(package)
    except ImportError as error:
        raise Unavailable(f"{package} cannot be imported", why=str(error), next=next) from error


def environment(beginnings: tuple[str, ...]) -> dict[str, str]:
    """Knobs: variables of the environment that begin so, but for those that name folders."""
    return {
        f"env.{name}": os.environ[name]
        for name in sorted(os.environ)
        if name.startswith(beginnings) and not name.endswith(("_DIR", "_PATH", "_HOME"))
    }
