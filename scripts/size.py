"""Keeps files and functions small: prints a table by room, and fails above the written limits.

    file        400 lines
    function     50 lines of body, its docstring not counted
    name         no utils, helpers, manager or base: such a name says nothing about what is inside

With a git revision as argument, shows how much each room grew since.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "laptime"
FILE_LINES = 400
FUNCTION_LINES = 50
EMPTY_NAMES = frozenset({"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"})


def functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    """Name, first line and lines of body without docstring of every function."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            length = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            yield node.name, node.lineno, length


def faults(path: Path) -> list[str]:
    """What is too big or badly named in one file, one sentence each."""
    text = path.read_text(encoding="utf-8")
    shown = path.relative_to(ROOT)
    found = []
    if len(text.splitlines()) > FILE_LINES:
        found.append(f"{shown}: {len(text.splitlines())} lines, limit {FILE_LINES}: where is the seam?")
    if path.stem in EMPTY_NAMES:
        found.append(f"{shown}: {path.stem!r} does not say what is inside")
    for name, line, length in functions(ast.parse(text)):
        if length > FUNCTION_LINES:
            found.append(f"{shown}:{line}: {name}() has {length} lines, limit {FUNCTION_LINES}")
    return found


def room(path: str) -> str:
    """The room that a file under src/laptime belongs to."""
    first, _, rest = path.partition("/")
    return first if rest else "(package)"


def sizes(files: dict[str, str]) -> Counter[str]:
    """Lines by room, from path under src/laptime and text."""
    lines: Counter[str] = Counter()
    for path, text in files.items():
        lines[room(path)] += len(text.splitlines())
    return lines


def at_revision(revision: str) -> dict[str, str]:
    """The Python files of a git revision: path under src/laptime and text."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True, cwd=ROOT).stdout

    names = git("ls-tree", "-r", "--name-only", revision, "src/laptime").split()
    return {
        name.removeprefix("src/laptime/"): git("show", f"{revision}:{name}")
        for name in names
        if name.endswith(".py")
    }


def main(revision: str | None = None) -> int:
    """Print the table; 1 when something is above a limit."""
    paths = sorted(SOURCE.rglob("*.py"))
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    lines, files = sizes(texts), Counter(room(path) for path in texts)
    before = sizes(at_revision(revision)) if revision else None
    print(f"{'room':<14}{'files':>6}{'lines':>8}" + (f"{'since ' + revision:>20}" if revision else ""))
    for name in [*sorted(lines), "all"]:
        total = name == "all"
        row = f"{name:<14}{files.total() if total else files[name]:>6}"
        row += f"{lines.total() if total else lines[name]:>8}"
        if before is not None:
            grown = lines.total() - before.total() if total else lines[name] - before[name]
            row += f"{grown:>+20}"
        print(row)
    found = [fault for path in paths for fault in faults(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
