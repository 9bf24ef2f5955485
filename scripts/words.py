"""Counts phrases that readers stumble over, in the texts that users see; fails above a limit that only falls.

    python scripts/words.py               the table; 1 when a phrase is above its limit
    python scripts/words.py --list PHRASE every place of one phrase
    python scripts/words.py --set         limits fall to today's counts; refused while one is above its limit

Texts of src are its strings of three words or more (help, errors, findings, headlines, tables); of docstrings
only a first word "What" counts. Prose of docs is README and docs/*.md without code, and without the notebook
of measurements. words.toml has the limits: [texts, docs] for each phrase. A function is a verb: `participle`
counts those of src whose name begins with a past participle, properties and context managers left out.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = ROOT / "scripts" / "words.toml"
LEFT_OUT = {"measurements.md", "api.md", "commands.md"}
"""A record of its days, and pages that are made of texts of src."""
PHRASES = {
    "told": r"\b(told|tells?|telling)\b",
    "is no": r"(?<!\b[Tt]here )\b(is|are|was|were) no (?!(longer|slower|faster|more|less|larger|wider)\b)",
    "where": r"(?<!says )(?<!said )(?<!shows )(?<!know )(?<!and )(?<!from )(?<!names )\b[Ww]here (?!TO\b)",
    "loud": r"\b(loud|louder)\b",
    "afresh": r"\bafresh\b",
    "rung": r"\brungs?\b",
    "clipped": r"(?:^|[.;:] )Of [^.?!]{1,60}[.](?= |$)",
    "is said": r"\b(is|are|was|were) said\b",
    "asked": r"\b(asked for|(was|is|are|were) asked)\b",
    "forever": r"\b(took forever|for good)\b",
    "surely": r"\bsurely\b",
}
SKIPPED = re.compile(r"^```.*?^```|`[^`]*`|<!--.*?-->|\]\([^)]*\)|^\|? ?-[-| ]+$", re.MULTILINE | re.DOTALL)
STARTS = re.compile(r"What\b")
PARTICIPLE = re.compile(
    r"_*(?!seed|speed|need|feed|embed|shared|elapsed)([a-z]+ed|drawn|shown|known|told|made|kept|held)(_|$)"
)


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each string that is not a docstring; values in f-strings are {}."""
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def openings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and docstring of each function, class and module."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def participles(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions whose name says neither what they do nor what they give."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and PARTICIPLE.match(node.name):
            named = map(ast.unparse, node.decorator_list)
            if not any(each.endswith(("property", "contextmanager")) for each in named):
                yield node


def source_places() -> Iterator[tuple[str, str, str]]:
    """The places in src."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree, shown = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT)
        for line, text in texts(tree):
            if len(text.split()) > 2:
                for name, pattern in PHRASES.items():
                    for found in re.finditer(pattern, text):
                        yield name, "texts", f"{shown}:{line}: {around(text, found)}"
        for line, text in openings(tree):
            if STARTS.match(text):
                yield "What ...", "texts", f"{shown}:{line}: {text.splitlines()[0]}"
        for node in participles(tree):
            yield "participle", "texts", f"{shown}:{node.lineno}: def {node.name}"


def places() -> Iterator[tuple[str, str, str]]:
    """Phrase, kind (texts or docs) and place with what stands there."""
    yield from source_places()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if path.name in LEFT_OUT:
            continue
        prose = SKIPPED.sub(lambda found: "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))
        for name, pattern in PHRASES.items():
            for found in re.finditer(pattern, prose):
                line = prose[: found.start()].count("\n") + 1
                yield name, "docs", f"{path.relative_to(ROOT)}:{line}: {around(prose, found)}"


def around(text: str, found: re.Match[str]) -> str:
    """The phrase with what stands beside it, in one line."""
    return " ".join(text[max(0, found.start() - 60) : found.end() + 40].split())


def main(*words: str) -> int:
    """Print the table; 1 when a phrase is above its limit."""
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8"))["phrases"] if LIMITS.exists() else {}
    found: dict[str, dict[str, list[str]]] = {
        name: {"texts": [], "docs": []} for name in [*PHRASES, "What ...", "participle"]
    }
    for name, kind, place in places():
        found[name][kind].append(place)
    if words[:1] == ("--list",):
        print(*(place for kind in found[words[1]].values() for place in kind), sep="\n")
        return 0
    above = []
    print(f"{'phrase':<10}{'texts':>6}{'limit':>6}{'docs':>6}{'limit':>6}")
    for name, kinds in found.items():
        most = dict(zip(("texts", "docs"), limits.get(name, (10**6, 10**6)), strict=True))
        cells = "".join(f"{len(kinds[kind]):>6}{most[kind]:>6}" for kind in kinds)
        print(f"{name:<10}{cells}")
        above += [
            f"{name}: {len(kinds[kind])} in {kind}, limit {most[kind]}: scripts/words.py --list '{name}'"
            for kind in kinds
            if len(kinds[kind]) > most[kind]
        ]
    if words[:1] == ("--set",) and not above:
        rows = [f'"{name}" = [{len(kinds["texts"])}, {len(kinds["docs"])}]' for name, kinds in found.items()]
        head = "# Most of each phrase in texts of src and in docs; scripts/words.py --set lowers them"
        LIMITS.write_text("\n".join([head, "[phrases]", *rows, ""]), encoding="utf-8")
    print(*above, sep="\n", end="\n" if above else "")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
