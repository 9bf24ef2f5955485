"""Run files of every version so far.

`UPGRADES[n]` turns a document of version n into one of version n + 1: reading a file that is older than
`NATIVE` walks the chain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from laptime.kit.errors import UsageError
from laptime.records.run import SCHEMA, Run
from laptime.store.encoding import decode
from laptime.store.older_loads import with_rows

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]

UPGRADES: Mapping[int, Upgrade] = {}
DAMAGE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding a damaged file raises."""

_NAME, _, _version = SCHEMA.rpartition("/")
CURRENT = int(_version)


NATIVE = 1
"""From this version on a document is read as it is; what its run lacks is made of it (`current`)."""


class Head(msgspec.Struct):
    """The fields of a run that say whether it can be read."""

    schema: str = ""
    name: str = ""


class Opening(msgspec.Struct):
    """The same of a journal's first line."""

    run: Head


def read_run(data: bytes, path: Path, *, upgrades: Mapping[int, Upgrade] = UPGRADES) -> Run:
    """The run in a file's bytes.

    Raises:
        UsageError: the file is damaged, is no run, or comes from a newer laptime.
    """
    try:
        version = version_of(decode(data, Head), path)
        if version >= NATIVE:
            return current(decode(data, Run), version)
        document = msgspec.json.decode(data)
        for step in range(version, NATIVE):
            document = upgrades[step](document)
        return current(msgspec.convert(document, Run, strict=False), NATIVE)
    except (*DAMAGE, LookupError, TypeError) as error:  # the last two: an upgrade met damage
        raise damaged(path, error) from error


def current(run: Run, version: int) -> Run:
    """A run that was read from a file of this version, as the current one has it."""
    return run if version >= CURRENT else with_rows(run)


def version_of(head: Head, path: Path) -> int:
    """The version that a file says it has.

    Raises:
        UsageError: it is no run, or its version is newer than this program.
    """
    match = re.fullmatch(re.escape(_NAME) + r"/(\d+)(?:\.\d+)?", head.schema, re.ASCII)
    if match is None:
        why = f"its schema is {head.schema!r}, not {SCHEMA!r}" if head.schema else "it names no schema"
        raise UsageError(f"{path} is not a laptime run", why=why, next="laptime list")
    version = int(match[1])
    if version > CURRENT:
        raise UsageError(
            f"{path} was written by a newer laptime",
            why=f"its schema is {head.schema}, this laptime reads up to {SCHEMA}",
            next="pip install -U laptime",
        )
    return version


def damaged(path: Path, error: Exception | str) -> UsageError:
    """The error for a damaged file."""
    return UsageError(
        f"{path} is damaged",
        why=str(error) or type(error).__name__,
        next="laptime list   (the other runs are whole)",
    )
