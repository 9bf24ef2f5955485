"""Every command of README and docs is one: its words and options are parsed as the page has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.command_lines import resolve

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(?:sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(laptime [^`\n]+)`")
PATTERN = re.compile(r"\.\.\.|\[[A-Z-]|[|<>{}]|\b(?:COMMAND|SCRIPT|OPTIONS)\b")
"""Of a line that shows a shape, not a command."""


def lines(text: str) -> Iterator[str]:
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("laptime "):
                yield line.strip()
    yield from INLINE.findall(text)


def commands() -> list[tuple[str, str]]:
    return sorted(
        {
            (page.name, line.replace("\\|", "|"))
            for page in PAGES
            for line in lines(page.read_text(encoding="utf-8"))
            if not PATTERN.search(line.partition("#")[0])
        }
    )


def test_pages_have_commands() -> None:
    assert len({page for page, _ in commands()}) > 15


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_documented_command_is_one(page: str, line: str) -> None:
    resolve(line)
