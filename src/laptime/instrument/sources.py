"""Other text in place of some of the user's files, under their names: `__file__` and imports stay as they
are."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any


def install(sources: dict[str, str]) -> Callable[[], None]:
    """Python reads these files in place of those; the result undoes it.

    Args:
        sources: path of the file to be read, by the path that it stands in for.
    """
    instead = {os.path.realpath(path): other for path, other in sources.items()}
    loader: Any = SourceFileLoader
    get_code, get_data = loader.get_code, loader.get_data

    def replaced(self: Any, path: str) -> bytes:
        data: bytes = get_data(self, instead.get(os.path.realpath(path), path))
        return data

    def compiled(self: Any, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if os.path.realpath(path) in instead:  # never what __pycache__ has of the user's own
            code: CodeType = self.source_to_code(replaced(self, path), path)
            return code
        data: CodeType | None = get_code(self, fullname)
        return data

    if instead:
        loader.get_code, loader.get_data = compiled, replaced

    def undo() -> None:
        if instead:  # both are inherited
            del loader.get_code, loader.get_data

    return undo
