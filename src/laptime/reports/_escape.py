"""Words of strangers in GitHub-flavoured Markdown: they stay text; folders of this machine are left out."""

from __future__ import annotations

import re

from laptime.reports import _words as words

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@$-])")
_SPECIAL_IN_TEXT = re.compile(r"([\\`*_\[\]<>#|~&@$])")


def text(sentence: str) -> str:
    """A sentence with everything escaped that could become markup, a mention or a link."""
    return _SPECIAL_IN_TEXT.sub(r"\\\1", words.plain(sentence))


def name(text: str) -> str:
    """A name on its own, with everything escaped that means something anywhere in a line."""
    return _SPECIAL.sub(r"\\\1", words.plain(text))


def code(text: str) -> str:
    """Code that holds any number of backticks."""
    text = words.plain(text)
    ticks = "`" * (1 + _backticks(text))
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fenced(source: str, language: str) -> str:
    """A block of code that no line of the code can end."""
    lines = [words.plain(line.expandtabs(4)) for line in source.split("\n")]
    body = "\n".join(lines).rstrip()
    fence = "`" * max(3, 1 + _backticks(body))
    return f"{fence}{language}\n{body}\n{fence}"


def _backticks(text: str) -> int:
    """The longest run of them."""
    return max((len(ticks) for ticks in re.findall("`+", text)), default=0)
