"""Functions of the user's, named `FILE.py:FUNCTION`: `--inputs` and `--metric`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from laptime.kit.errors import UsageError
from laptime.targets import file

EXAMPLES = {"--inputs": "data.py:samples", "--metric": "eval.py:accuracy"}


def check(option: str, text: str) -> None:
    """Refuse what names no function, without running anything.

    Raises:
        UsageError: it is not written like that. TargetError: there is no such file or function.
        UserCodeError: the file is not valid Python.
    """
    if not file.matches(text):
        raise UsageError(
            f"{option} {text} names no function",
            why="it is written FILE.py:FUNCTION",
            next=f"{option} {EXAMPLES[option]}",
        )
    file.resolve(text)


def called(text: str, *arguments: Any) -> Any:
    """What the function returns.

    Raises:
        TargetError: there is none. UserCodeError: it raised.
    """
    function = file.function(text)
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise file.raised(text, error) from error


def guarded(text: str, values: Iterable[Any]) -> Iterator[Any]:
    """The values of what the function returned, which may be a generator.

    Raises:
        UserCodeError: it raised.
    """
    try:
        yield from values
    except (Exception, SystemExit) as error:
        raise file.raised(text, error) from error
