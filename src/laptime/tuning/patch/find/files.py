"""The user's files: which of them may be edited, and what they hold now."""

from __future__ import annotations

import os
import site as site_module
import sysconfig
import tokenize
from pathlib import Path

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch import diff
from laptime.tuning.patch.find.syntax_tree import Tree
from laptime.tuning.patch.text import Text


class File(Text):
    """One file of the user's. `why` says why it cannot be edited, "" where it can."""

    def __init__(self, path: Path, shown: str, text: str, why: str = "") -> None:
        super().__init__(text)
        self.path = path
        self.shown = shown
        self.original = text
        self.why = why
        self.labels: list[tuple[str, ...]] = [()] * len(diff.lines(text))
        self._tree: Tree | None = None

    @property
    def tree(self) -> Tree:
        """The text as it is now, parsed.

        Raises:
            CannotEdit: the file cannot be read or written, or is no Python that libcst knows.
        """
        if self.why:
            raise CannotEdit(self.why)
        if self._tree is None or self._tree.text is not self.text:
            is_first = self._tree is None
            self._tree = Tree(self.text, self.shown)
            # Places are where libcst writes things: it has to write the file as it is.
            if is_first and not self.text.endswith(self._tree.module.code):
                raise CannotEdit(f"{self.shown} is written in a way that libcst does not keep")
        return self._tree


def root_of(main: Path) -> Path:
    """Of the git repository that the script is in; the current folder; the script's folder."""
    for folder in main.parents:
        if (folder / ".git").exists():
            return folder
    here = Path.cwd()
    return here if here in main.parents else main.parent


def is_foreign(path: Path) -> bool:
    """Whether a file was installed."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {
        site_module.getusersitepackages()
    }
    return any(path.is_relative_to(folder) for folder in folders)


def read(path: Path, root: Path) -> File:
    """A file, or why it is left alone."""
    shown = os.path.relpath(path, root).replace(os.sep, "/")

    def without(why: str) -> File:
        return File(path, shown, "", why)

    if is_foreign(path):
        return without(f"{path.name} is part of a library")
    if not path.is_relative_to(root):
        return without(f"{path} lies outside of {root}")
    if not os.access(path, os.W_OK):
        return without(f"{path} cannot be written" if path.exists() else f"there is no file {path}")
    try:
        data = path.read_bytes()
        with path.open("rb") as opened:
            encoding = tokenize.detect_encoding(opened.readline)[0]
        if encoding not in ("utf-8", "utf-8-sig"):
            return without(f"{shown} is written in {encoding}, not in UTF-8")
        text = data.decode("utf-8")
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        return without(f"{shown} is not text in UTF-8: {error}")
    return File(path, shown, text)
