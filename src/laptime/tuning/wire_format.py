"""Dataclasses as JSON between laptime's process and a trial's, which has only the standard library.

    {"kind": "Block", "version": 1, "round": 0, "arm": 1, "seconds": [0.12, 0.11], ...}

A document says what it is. Decoding is strict: an unknown, missing or mistyped field is an error that names
it, so that a typo is never lost in silence."""

import json
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

VERSION = 1  # of all documents; both sides run the same laptime, so any other version is a mistake
_T = TypeVar("_T")
_PLAIN: frozenset[type] = frozenset({bool, int, float, str, type(None)})
_SEQUENCES: dict[Any, Callable[[list[Any]], Any]] = {list: list, tuple: tuple, frozenset: frozenset}


class WireError(ValueError):
    """A document that is not what was expected; the text names the field."""


def encode(document: Any) -> str:
    """A dataclass as one line of tagged JSON. Sets become sorted lists, other foreign values their text."""
    tag = {"kind": type(document).__name__, "version": VERSION}
    return json.dumps(tag | _plain(document), default=_plain)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        kind: Any = type(value)
        return {name: getattr(value, name) for name in _read_fields(kind)}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return int(value) if isinstance(value, Integral) else str(value)  # numpy's integers are none of Python's


def decode(text: str | bytes, *kinds: type[_T]) -> _T:
    """The document in a text that `encode` has written; it is one of these kinds.
    Raises WireError: it is not, or a field is unknown, missing or of another type."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise WireError(f"no JSON: {error}") from error
    expected = {kind.__name__: kind for kind in kinds}
    if not isinstance(document, dict) or document.get("kind") not in expected:
        found = document.get("kind") if isinstance(document, dict) else type(document).__name__
        raise WireError(f"expected {' or '.join(expected)}, got {found}")
    if document.get("version") != VERSION:
        raise WireError(f"{document['kind']} has version {document.get('version')}, expected {VERSION}")
    return build(
        expected[document["kind"]],
        {name: value for name, value in document.items() if name not in ("kind", "version")},
    )


def build(cls: type[_T], content: dict[str, Any]) -> _T:
    """A dataclass out of plain values by field name, lists and objects inside it included.
    Raises WireError: a field is unknown, missing or of another type."""
    result: _T = _dataclass(cls, content, cls.__name__)
    return result


@lru_cache(maxsize=64)
def _read_fields(cls: Any) -> dict[str, tuple[Any, frozenset[type]]]:
    """The type of each field, and the plain types of values that are taken as they are."""
    hints = get_type_hints(cls)
    return {field.name: (hints[field.name], _as_they_are(hints[field.name])) for field in fields(cls)}


def _as_they_are(expected: Any) -> frozenset[type]:
    is_union = get_origin(expected) in (Union, types.UnionType)
    return frozenset(get_args(expected) if is_union else (expected,)) & _PLAIN


@lru_cache(maxsize=64)
def _list_required(cls: Any) -> tuple[str, ...]:
    return tuple(
        field.name for field in fields(cls) if field.default is MISSING and field.default_factory is MISSING
    )


def _dataclass(cls: Any, content: Any, where: str) -> Any:
    if not isinstance(content, dict):
        raise WireError(f"{where}: expected an object, got {type(content).__name__}")
    declared = _read_fields(cls)
    for name in content:
        if name not in declared:
            similar = get_close_matches(name, declared, n=1)
            hint = f"; did you mean {similar[0]!r}?" if similar else ""
            raise WireError(f"{where} has no field {name!r}{hint}")
    for name in _list_required(cls):
        if name not in content:
            raise WireError(f"{where} lacks the field {name!r}")
    values = {}
    for name, value in content.items():
        expected, as_they_are = declared[name]
        is_plain = type(value) in as_they_are
        values[name] = value if is_plain else _value(expected, value, f"{where}.{name}")
    return cls(**values)


def _value(expected: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(expected), get_args(expected)
    if expected is Any:
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (expected,) = [argument for argument in arguments if argument is not type(None)] or [type(None)]
        return _value(expected, value, where)
    if is_dataclass(expected):
        return _dataclass(expected, value, where)
    if origin in _SEQUENCES and isinstance(value, list):
        return _SEQUENCES[origin](
            [_value(arguments[0], item, f"{where}[{n}]") for n, item in enumerate(value)]
        )
    if origin is dict and isinstance(value, dict):
        return {key: _value(arguments[1], item, f"{where}[{key!r}]") for key, item in value.items()}
    if expected is float and type(value) is int:
        return float(value)
    if origin is None and type(value) is expected:
        return value
    raise WireError(f"{where}: expected {getattr(expected, '__name__', expected)}, got {value!r:.80}")
