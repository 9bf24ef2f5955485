"""Files and modules that docs, docstrings and comments name are there: whoever follows a pointer arrives."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "laptime"
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|md|toml|html|css|js|csv))`")
MODULE = re.compile(r"`((?:laptime\.)?[a-z_]+(?:\.[a-z_]+)+)(?:\.[A-Z]\w*)?`")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
ROOMS = frozenset(path.name for path in SOURCE.iterdir() if path.is_dir())


def texts() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    return [*pages, *SOURCE.rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]


def named(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for name in PATH.findall(line):
            if "NAME" not in name and not any((base / name).exists() for base in bases(path)):
                yield number, name
        for name in MODULE.findall(line):
            if not is_module(name):
                yield number, name
        for name in LINK.findall(line) if path.suffix == ".md" else ():
            if not (path.parent / name).exists():
                yield number, name


def bases(path: Path) -> Iterator[Path]:
    """Folders that a path may be told from: the repository, the package, its rooms, the text's own folder."""
    yield from (ROOT, SOURCE, path.parent, SOURCE / "tuning", SOURCE / "tuning" / "catalogue")
    yield from path.parents


def is_module(name: str) -> bool:
    """A dotted name whose first part is a room leads to a module, or to something in one."""
    parts = name.removeprefix("laptime.").split(".")
    if parts[0] not in ROOMS or (
        not name.startswith("laptime.") and parts[0] in ("trace", "records", "data")
    ):
        return True  # a name of another library, or `trace.name` of a local variable
    for length in range(len(parts), 0, -1):
        place = SOURCE.joinpath(*parts[:length])
        if place.is_dir() or place.with_suffix(".py").exists():
            if length >= len(parts):
                return True
            source = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
            return parts[length] in source.read_text(encoding="utf-8")
    return importlib.util.find_spec(name.split(".")[0]) is not None


def test_what_a_text_names_is_there() -> None:
    missing = {str(path.relative_to(ROOT)): list(named(path)) for path in texts()}
    assert {path: names for path, names in missing.items() if names} == {}


def test_every_row_of_a_table_has_a_line_of_its_own() -> None:
    """A reflowed paragraph swallows the rows of a table, which then shows as text."""
    for page in (ROOT / "docs").rglob("*.md"):
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        rows = [line for line in prose.splitlines() if line.startswith("| ")]
        broken = [
            row for row in rows if re.search(r"\| -{3,}:? \|.*\w", row) or not row.rstrip().endswith("|")
        ]
        assert broken == [], page
