"""Nested data as plain text in YAML's block style, and quantities as short words. Reads as YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# A bare word that no YAML reader takes for a number, a date, a truth value, null or syntax.
_BARE = re.compile(r"[A-Za-z(/][^\n#\"'`{}\[\],&*!|<>%@]*(?:\[[^\n#]*\])?")
_TAKEN = re.compile(r"(?i)true|false|yes|no|on|off|null|y|n|\.nan|-?\.inf")


def block(data: Mapping[str, Any], *, indent: int = 0) -> str:
    """A mapping as lines, keys sorted, two spaces a level; ends in a newline."""
    return "".join(_entry(key, data[key], indent) for key in sorted(data))


def _entry(key: str, value: Any, indent: int) -> str:
    pad = " " * indent
    if isinstance(value, Mapping) and value:
        return f"{pad}{_scalar(key)}:\n{block(value, indent=indent + 2)}"
    if isinstance(value, list) and value:
        return f"{pad}{_scalar(key)}:\n" + "".join(_item(part, indent) for part in value)
    return f"{pad}{_scalar(key)}: {_scalar(value)}\n"


def _item(value: Any, indent: int) -> str:
    pad = " " * indent
    if isinstance(value, Mapping) and value:
        return f"{pad}- " + block(value, indent=indent + 2)[indent + 2 :]
    return f"{pad}- {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    """One value on one line. Strings that could be read as something else are quoted, as in JSON."""
    if isinstance(value, str):
        is_bare = _BARE.fullmatch(value) and not _TAKEN.fullmatch(value)
        safe = is_bare and ": " not in value and not value.endswith((":", " "))
        return value if safe else json.dumps(value)
    return json.dumps(value)


def number(value: float) -> str:
    """A plain number in thousands: `5.29 M`."""
    return _scaled(value, 1000, ("", " K", " M", " G", " T", " P"))


def size(value: float) -> str:
    """Bytes in powers of 1024, and named so: `15.61 GiB`."""
    return _scaled(value, 1024, (" B", " KiB", " MiB", " GiB", " TiB", " PiB"))


def _scaled(value: float, step: int, names: tuple[str, ...]) -> str:
    for name in names[:-1]:
        if abs(value) < step:
            return f"{value:.2f}{name}"
        value /= step
    return f"{value:.2f}{names[-1]}"


def duration(seconds: float) -> str:
    """`1.234 s`, `25.910 ms`, `3.100 us`."""
    if seconds >= 1.0:
        return f"{seconds:.3f} s"
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3f} us"
