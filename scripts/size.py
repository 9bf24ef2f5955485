"""Keeps files, functions and rooms small: prints a table by room, and fails above the written limits.

    file        400 lines
    function     50 lines of body, its docstring not counted
    name         no utils, helpers, manager or base: such a name says nothing about what is inside
    room         its ceiling of files and lines in ceilings.toml, which only falls

A file that is one extension (a rule, an optimization, a command ...) counts for no ceiling: adding one
touches nothing else. With `--set`, ceilings fall to today's figures, and a room above its own is refused.
With a git revision as argument, shows how much each room grew since.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "laptime"
CEILINGS = ROOT / "scripts" / "ceilings.toml"
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


class Ceiling(NamedTuple):
    """The most files and lines of a room, extensions not counted."""

    files: int
    lines: int


def is_extension(path: str) -> bool:
    """Whether a file under src/laptime is one extension, as the registry finds them by name."""
    from laptime.kit.registry import ROOMS

    folder, _, name = path.rpartition("/")
    package = f"laptime.{folder.replace('/', '.')}"
    return not name.startswith("_") and any(package in packages.split() for packages in ROOMS.values())


def counted(texts: dict[str, str]) -> dict[str, Ceiling]:
    """Files and lines of every room by path and text, extensions not counted."""
    house = {path: text for path, text in texts.items() if not is_extension(path)}
    lines, files = sizes(house), Counter(room(path) for path in house)
    return {name: Ceiling(files[name], lines[name]) for name in sorted(lines)}


def above(now: dict[str, Ceiling], ceilings: dict[str, Ceiling]) -> list[str]:
    """A sentence for each room that is larger than its ceiling, or has none."""
    found = []
    for name, size in now.items():
        most = ceilings.get(name)
        if most is None:
            found.append(f"{name} has no ceiling: python scripts/size.py --set")
        elif size.files > most.files or size.lines > most.lines:
            words = f"{size.files} files and {size.lines} lines, its ceiling is {most.files} and {most.lines}"
            found.append(f"{name} has {words}: what can go, or be one?")
    return found


def lowered(now: dict[str, Ceiling], ceilings: dict[str, Ceiling]) -> dict[str, Ceiling]:
    """The ceilings at today's figures. Rooms that are gone have none; a new room gets its figures.

    Raises:
        ValueError: a room is above its ceiling, which is never raised.
    """
    risen = above({name: size for name, size in now.items() if name in ceilings}, ceilings)
    if risen:
        raise ValueError("\n".join(risen))
    return dict(now)


def read_ceilings() -> dict[str, Ceiling]:
    """The ceilings as they are written."""
    rooms = tomllib.loads(CEILINGS.read_text(encoding="utf-8"))["rooms"]
    return {name: Ceiling(*most) for name, most in rooms.items()}


def write_ceilings(ceilings: dict[str, Ceiling]) -> None:
    """The file of them."""
    rows = [f'"{name}" = [{most.files}, {most.lines}]' for name, most in ceilings.items()]
    head = "# Most files and lines of each room, extensions not counted; scripts/size.py --set lowers them"
    CEILINGS.write_text("\n".join([head, "[rooms]", *rows, ""]), encoding="utf-8")


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


def show(texts: dict[str, str], revision: str | None) -> None:
    """The table by room, with what each grew since a revision."""
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


def main(argument: str | None = None) -> int:
    """Print the table; 1 when something is above a limit."""
    paths = sorted(SOURCE.rglob("*.py"))
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    sys.path.insert(0, str(SOURCE.parent))
    if argument == "--set":
        try:
            write_ceilings(lowered(counted(texts), read_ceilings()))
        except ValueError as error:
            print(error)
            return 1
        argument = None
    show(texts, argument)
    found = [fault for path in paths for fault in faults(path)]
    found += above(counted(texts), read_ceilings())
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
