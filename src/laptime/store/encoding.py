"""Records as lines of JSON, and back."""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

Record = TypeVar("Record")
DAMAGE = (msgspec.MsgspecError, ValueError, RecursionError)  # what decoding a damaged file raises

# JSON has no infinities and no NaN, and msgspec writes them as null, which a float field does not read. An
# interval that is open to one side is a legitimate result: they are written as texts, which are read back.


def encode(record: object) -> bytes:
    """One line of JSON. Numbers that JSON lacks show up as null; without one the slow way is spared."""
    data = msgspec.json.encode(record)
    return data if b"null" not in data else msgspec.json.encode(spell_out(msgspec.to_builtins(record)))


def decode(data: bytes, kind: type[Record]) -> Record:
    """The record in a JSON text; unknown fields are ignored. Raises what is in DAMAGE: it is none."""
    return msgspec.json.decode(data, type=kind, strict=False)


def spell_out(value: Any, spell: Callable[[float], str] = str) -> Any:
    """The same plain data with infinities and NaN in letters."""
    if isinstance(value, float):
        return value if math.isfinite(value) else spell(value)
    if isinstance(value, dict):
        return {str(name): spell_out(item, spell) for name, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    with suppress(TypeError, OverflowError):  # thousands of numbers: all are finite if their sum is
        return value if math.isfinite(sum(value)) else [spell_out(item, spell) for item in value]
    return [spell_out(item, spell) for item in value]
