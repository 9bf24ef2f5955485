"""Versions of installed packages, without importing them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version


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
