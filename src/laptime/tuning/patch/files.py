"""The user's files: which may be edited, what they hold now, what libcst reads in them, node by node."""

import os
import re
import site as site_module
import sysconfig
import tokenize
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch import diff
from laptime.tuning.patch.text import NEWLINE, Text, flat

Function = cst.FunctionDef | cst.Lambda
Loop = cst.For | cst.While
SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
BOM = "\ufeff"
WHITE = re.compile(
    r"whitespace|^(header|footer|leading_lines|lines_after_decorators|trailing_whitespace|indent)$"
)


class _Positions(MetadataWrapper):
    """Without the walk over the tree that libcst makes for providers that are visitors; ours is none."""

    def visit_batched(self, visitors: Any, before_visit: Any = None, after_visit: Any = None) -> cst.Module:
        return self.module


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Return where a kind of node keeps others, white space left out."""
    return tuple(field.name for field in fields(kind) if not WHITE.search(field.name))


def _parts(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes in a node, in the order of the source; `CSTNode.children` takes 20 times as long."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (part for part in value if isinstance(part, cst.CSTNode))


class Tree:
    """A parsed file. Nodes are libcst's; offsets are characters of the whole text.
    Raises CannotEdit: libcst cannot read it."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        # The mark of a byte order is no Python.
        self.begin = len(BOM) if text.startswith(BOM) else 0
        try:
            parsed = cst.parse_module(text[self.begin :])
        except (cst.ParserSyntaxError, ValueError, RecursionError) as error:
            raise CannotEdit(f"{name} cannot be read by libcst: {str(error).splitlines()[0]}") from error
        self.module = parsed
        self._lines = [self.begin, *(found.end() for found in NEWLINE.finditer(text))]
        wrapper = _Positions(parsed, unsafe_skip_copy=True)
        self._positions: Any = wrapper.resolve(PositionProvider)
        self._parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._children: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        self.nodes: list[cst.CSTNode] = []
        waiting: list[cst.CSTNode] = [parsed]
        while waiting:
            node = waiting.pop()
            self.nodes.append(node)
            children = self._children[node] = list(_parts(node))
            for child in children:
                self._parents[child] = node
            waiting.extend(reversed(children))
        self.calls = [node for node in self.nodes if isinstance(node, cst.Call)]

    def start(self, node: cst.CSTNode) -> int:
        """Offset of its first character, its own parentheses and decorators left out."""
        place = self._positions[node].start
        return self._lines[int(place.line) - 1] + int(place.column)

    def end(self, node: cst.CSTNode) -> int:
        """Offset behind its last character, its own parentheses left out."""
        place = self._positions[node].end
        return self._lines[int(place.line) - 1] + int(place.column)

    def covers(self, node: cst.CSTNode, line: int) -> bool:
        """Whether it stands on a line."""
        first, last = self.lines(node)
        return first <= line <= last

    def names(self, node: cst.CSTNode) -> set[str]:
        """Every name in it."""
        return {inner.value for inner in self.inside(node) if isinstance(inner, cst.Name)}

    def is_alone(self, node: cst.CSTNode) -> bool:
        """Whether the statement of a node has its line for itself."""
        statement = self.statement(node)
        return isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """Its first and last line, from 1."""
        place = self._positions[node]
        return int(place.start.line), int(place.end.line)

    def outer(self, node: cst.CSTNode) -> tuple[int, int]:
        """From its own opening parentheses to its closing ones."""
        left, right = getattr(node, "lpar", ()), getattr(node, "rpar", ())
        start = self.start(left[0]) if left else self.start(node)
        return start, self.end(right[-1]) if right else self.end(node)

    def source(self, node: cst.CSTNode) -> str:
        """Its text, with its own parentheses."""
        start, end = self.outer(node)
        return self.text[start:end]

    def bare(self, node: cst.CSTNode) -> str:
        """Its text, without its own parentheses."""
        return self.text[self.start(node) : self.end(node)]

    def flat(self, node: cst.CSTNode) -> str:
        """Its text in one line, to compare it with."""
        return flat(self.source(node))

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node around it; None for the module."""
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Nodes around it, inside out."""
        outer = self._parents.get(node)
        while outer is not None:
            yield outer
            outer = self._parents.get(outer)

    def inside(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The node and everything in it, in the order of the source."""
        waiting = [node]
        while waiting:
            inner = waiting.pop()
            yield inner
            waiting.extend(reversed(self._children[inner]))

    def paren(self, call: cst.Call) -> int:
        """Offset of the parenthesis that opens its arguments: no two calls share one."""
        at = self.outer(call.func)[1]
        while self.text[at] != "(":
            at = self.text.index("\n", at) if self.text[at] == "#" else at + 1
        return at

    def close(self, call: cst.Call) -> int:
        """Offset of the parenthesis that closes its arguments."""
        return self.end(call) - 1

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The whole statement, on lines of its own, that a node is part of; of `if x: y()` the `if`."""
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, cst.IndentedBlock | cst.Module):
            node, parent = parent, self._parents.get(parent)
        return node

    def small(self, node: cst.CSTNode) -> cst.BaseSmallStatement | None:
        """The simple statement that an expression is part of; None in the header of a compound one."""
        kinds = cst.BaseSmallStatement | cst.BaseCompoundStatement | cst.Lambda
        found = next((outer for outer in (node, *self.ancestors(node)) if isinstance(outer, kinds)), None)
        return found if isinstance(found, cst.BaseSmallStatement) else None

    def block(self, statement: cst.CSTNode) -> list[cst.CSTNode]:
        """The statements of the block that a statement stands in."""
        parent = self._parents[statement]
        return list(parent.body) if isinstance(parent, cst.IndentedBlock | cst.Module) else [statement]

    def first_line(self, statement: cst.CSTNode) -> int:
        """Offset of a statement's first character, decorators included."""
        decorators = getattr(statement, "decorators", ())
        return self.start(decorators[0]) if decorators else self.start(statement)

    def function(self, node: cst.CSTNode) -> Function | None:
        """The innermost function around a node; None at the top level and in the body of a class."""
        scope = next((outer for outer in self.ancestors(node) if isinstance(outer, SCOPES)), None)
        return scope if isinstance(scope, cst.FunctionDef | cst.Lambda) else None

    def loops(self, node: cst.CSTNode) -> list[Loop]:
        """The loops around a node within its function, inside out."""
        inside = takewhile(lambda outer: not isinstance(outer, SCOPES), self.ancestors(node))
        return [outer for outer in inside if isinstance(outer, cst.For | cst.While)]

    def strings(self) -> list[tuple[int, int]]:
        """Ranges of the strings that go over several lines."""
        kinds = cst.SimpleString | cst.FormattedString
        ranges = [(self.start(node), self.end(node)) for node in self.nodes if isinstance(node, kinds)]
        return [(start, end) for start, end in ranges if NEWLINE.search(self.text, start, end)]


# The user's files


class File(Text):
    """One file of the user's. `why` says why it cannot be edited, "" if it can."""

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
        Raises CannotEdit: the file cannot be read or written, or is no Python that libcst knows."""
        if self.why:
            raise CannotEdit(self.why)
        if self._tree is None or self._tree.text is not self.text:
            is_first = self._tree is None
            self._tree = Tree(self.text, self.shown)
            # Places are where libcst writes things: it has to write the file as it is.
            if is_first and not self.text.endswith(self._tree.module.code):
                raise CannotEdit(f"{self.shown} is written in a way that libcst does not keep")
        return self._tree

    def indents(self, offset: int) -> tuple[str, str]:
        """Indentation of the line of an offset, and what a block below adds to it: a tab behind tabs."""
        indent = self.indentation(offset)
        return indent, "\t" if indent.startswith("\t") else self.tree.module.default_indent


def root_of(main: Path) -> Path:
    """Return the root of the script's git repository; else the current folder; else the script's folder."""
    repositories = (folder for folder in main.parents if (folder / ".git").exists())
    here = Path.cwd()
    return next(repositories, here if here in main.parents else main.parent)


def is_foreign(path: Path) -> bool:
    """Whether a file was installed."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    is_below = any(path.is_relative_to(each) for each in (*folders, site_module.getusersitepackages()))
    return is_below or not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


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
