"""Records to JSON and back, without losing an infinity.

JSON has no infinities and no NaN, and msgspec writes them as null, which a float field does not read.
An interval open to one side is a legitimate result, so they are written as the texts "inf", "-inf" and
"nan", which the lenient decoder reads back into float fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

Record = TypeVar("Record")


def encode(record: msgspec.Struct) -> bytes:
    """One line of JSON."""
    data = msgspec.json.encode(record)
    # Numbers that JSON lacks show up as null; without one the slow way is spared.
    return data if b"null" not in data else msgspec.json.encode(spelled(msgspec.to_builtins(record)))


def decode(data: bytes, kind: type[Record]) -> Record:
    """The record in a JSON text; unknown fields are ignored.

    Raises:
        msgspec.MsgspecError, ValueError, RecursionError: it is damaged or of another shape.
    """
    return msgspec.json.decode(data, type=kind, strict=False)


def spelled(value: Any, spell: Callable[[float], str] = str) -> Any:
    """The same plain data with infinities and NaN in letters."""
    if isinstance(value, float):
        return value if math.isfinite(value) else spell(value)
    if isinstance(value, dict):
        return {str(name): spelled(item, spell) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [spelled(item, spell) for item in value]
    return value
