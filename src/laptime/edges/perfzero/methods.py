"""Which methods are meant: `pkg.mod.Class.method`, `pkg.mod.Class:method`, `pkg.mod.Class.filter:REGEX`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from laptime.kit.errors import UsageError

FILTER = "filter:"


class Method(Struct, frozen=True):
    """One method to run.

    Attributes:
        name: as the user wrote it; a filter's finds are written with dots.
        cls: `pkg.mod.Class`.
        method: its name in the class.
    """

    name: str
    cls: str
    method: str


class Filter(Struct, frozen=True):
    """Methods of a class whose names match a regular expression from their first letter on."""

    name: str
    cls: str
    pattern: str


def parse(texts: Sequence[str]) -> list[Method | Filter]:
    """What the texts of all `--benchmark_methods` mean, in their order; repeated ones once.

    Raises:
        UsageError: one names no method of a class, or its expression cannot be read.
    """
    words = [word for text in texts for part in text.split(",") if (word := part.strip())]
    return list(dict.fromkeys(_parse(word) for word in words))


def expand(wanted: Sequence[Method | Filter], names: Callable[[Filter], list[str]]) -> list[Method]:
    """The methods to run, with every filter replaced by what it finds; each method once.

    Args:
        names: looks into the class; needs a process that imports it.
    """
    methods: list[Method] = []
    for each in wanted:
        if isinstance(each, Method):
            methods.append(each)
        else:
            methods += [Method(f"{each.cls}.{name}", each.cls, name) for name in names(each)]
    return list({(each.cls, each.method): each for each in reversed(methods)}.values())[::-1]


def _parse(word: str) -> Method | Filter:
    cls, is_filter, pattern = word.partition(f".{FILTER}")
    if is_filter:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(
                f"{word}: the expression behind filter: cannot be read",
                why=f"{error}; a comma separates methods, so an expression cannot have one",
                next=f"{cls}.filter:benchmark_.*",
            ) from error
        return Filter(word, _class(cls, word), pattern)
    cls, colon, method = word.rpartition(":")
    if not colon:
        cls, _, method = word.rpartition(".")
    if not method.isidentifier():
        raise _nonsense(word)
    return Method(word, _class(cls, word), method)


def _class(text: str, word: str) -> str:
    parts = text.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        raise _nonsense(word)
    return text


def _nonsense(word: str) -> UsageError:
    return UsageError(
        f"{word!r} names no method of a class",
        why="package.module.Class.method, or Class.filter:REGEX for all that match",
        next="--benchmark_methods=package.module.Class.filter:benchmark_",
    )
