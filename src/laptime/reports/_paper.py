"""What text reports are printed on before they are text, and how their lines are laid out."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from laptime.records.run import Run
from laptime.reports import _words as words

INDENT = 12
# textwrap breaks at plain blanks only, and no printable name has this one.
_TIED = "\xa0"
_UNIT = re.compile(r"(?<=[\d\]]) (?=(?:%|[numk]?s|min|[KMGT]?i?B(?:/s)?)(?![\w/]))")


def paper(*, color: bool) -> Console:
    """A console to capture lines from: marks nothing up by itself, breaks no line."""
    return Console(
        file=StringIO(),
        width=10_000,  # lines are broken here, not by rich
        color_system="standard" if color else None,
        force_terminal=color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def printed(lines: Iterable[Text], *, color: bool) -> str:
    """The lines as one text, nothing hanging over their ends."""
    out = paper(color=color)
    with out.capture() as captured:
        for line in lines:
            line.rstrip()
            out.print(line, soft_wrap=True)
    return captured.get()


def titled(topic: str, text: str, width: int, *, style: str = "dim", indent: int = INDENT) -> list[Text]:
    """`topic      text`, continued under the text; width 0 leaves it on one line."""
    text = words.printable(text)
    body = wrapped(topic, text, width, indent=indent) if width else [topic.ljust(indent - 1) + " " + text]
    return [
        Text.assemble((body[0][: len(topic)], style), body[0][len(topic) :]),
        *(Text(line) for line in body[1:]),
    ]


def wrapped(topic: str, text: str, width: int, *, indent: int = INDENT) -> list[str]:
    """Lines of at most `width` columns, the topic before the first; long words stay whole."""
    first = (topic.ljust(indent - 1) + " ") if indent else ""
    found = textwrap.wrap(
        _UNIT.sub(_TIED, text),
        max(width, 40),
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_TIED, " ") for line in found] or [first.rstrip()]


def fill(text: str, width: int) -> str:
    """The blanks that make a text this wide."""
    return " " * (width - cell_len(text))


def foot(run: Run) -> list[Text]:
    """Where the run is kept, and what to type for a page of it."""
    if (save := run.plan.get("save")) is not None and save.value is False:
        return [Text(), Text("Not saved")]
    return [Text(), Text(f"Saved {words.printable(run.id)}   next: laptime show last -o report.html")]
