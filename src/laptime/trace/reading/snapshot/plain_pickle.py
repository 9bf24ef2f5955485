"""A pickle of plain containers, and of nothing else.

A pickle can name any class or function and call it. This reader knows no name at all: a file that wants
one is
refused before anything is called. Dicts, lists, tuples, sets, texts and numbers need none.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NoReturn


class Foreign(Exception):
    """The pickle names a class or function."""


class _Plain(pickle.Unpickler):
    """Refuses every name and every reference to something outside of the file."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Raises Foreign: no name is looked up."""
        raise Foreign(f"it names {module}.{name}, and a snapshot is made of plain containers")

    def persistent_load(self, reference: Any) -> NoReturn:
        """Raises Foreign: nothing outside of the file is loaded."""
        raise Foreign("it refers to something outside of the file, and a snapshot does not")


def load(path: Path) -> Any:
    """What is in the file.

    Raises:
        OSError: it cannot be opened. Foreign: it holds more than plain containers. ValueError: it is damaged.
    """
    with path.open("rb") as file:
        try:
            return _Plain(file).load()
        except (Foreign, OSError):
            raise
        except Exception as error:  # bytes that are no pickle end in nearly any exception
            raise ValueError(f"{type(error).__name__}: {error}") from error
