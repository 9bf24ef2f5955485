"""The commands of README and docs: every line of a shell block and every `laptime ...` in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(?:sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(laptime [^`\n]+)`")
PATTERN = re.compile(r"\.\.\.|\[[A-Z-]|[|<>{}]|\b(?:COMMAND|SCRIPT|OPTIONS)\b")
"""Of a line that shows a shape, not a command, outside of quotes: braces in them are choices of a server."""
QUOTED = re.compile(r"'[^']*'")


def lines(text: str) -> Iterator[str]:
    """The commands of one page as they stand there."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("laptime "):
                yield line.strip()
    yield from INLINE.findall(text)


def commands() -> list[tuple[str, str]]:
    """Page and line of each command, sorted, without those that only show a shape."""
    return sorted(
        {
            (page.name, line.replace("\\|", "|"))
            for page in PAGES
            for line in lines(page.read_text(encoding="utf-8"))
            if not PATTERN.search(QUOTED.sub("", line.partition("#")[0]))
        }
    )
