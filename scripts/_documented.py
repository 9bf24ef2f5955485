"""What README and docs say that can be run: commands, and blocks of Python.

Commands are every line of a shell block and every `laptime ...` in a sentence. A comment right above a block
of Python, which no reader sees, says what is to be known of it:

    <!-- not run: REASON -->    it cannot run where this is tested
    <!-- slow -->               it takes longer than some seconds
    <!-- then: CODE -->         what shows that it does what it says, if running it does not
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(laptime [^`\n]+)`")
PATTERN = re.compile(r"\.\.\.|\[[A-Z-]|[|<>{}]|\b(?:COMMAND|SCRIPT|OPTIONS)\b")
"""Of a line that shows a shape, not a command, outside of quotes: braces in them are choices of a server."""
PYTHON = re.compile(
    r"(?:^<!-- (not run|slow|then)(?:: (.*?))? -->\n)?^```(?:python|py)\n(.*?)^```", re.MULTILINE | re.DOTALL
)
QUOTED = re.compile(r"'[^']*'")


def lines(text: str) -> Iterator[str]:
    """The commands of one page as they stand there."""
    for language, block in FENCE.findall(text):
        if language not in ("", "sh"):
            continue
        for line in re.split(r"\n| && ", block.replace("\\\n", " ")):
            if line.strip().startswith("laptime "):
                yield line.strip()
    yield from INLINE.findall(text)


class Block(NamedTuple):
    """A block of Python: the page with the line, its code, and what the comment above it says."""

    place: str
    code: str
    word: str
    text: str


def blocks() -> list[Block]:
    """The blocks of Python of all pages."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in PYTHON.finditer(text):
            word, said, code = match.groups(default="")
            found.append(Block(f"{page.name}:{text[: match.start(3)].count(chr(10))}", code, word, said))
    return found


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
