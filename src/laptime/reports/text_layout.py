"""Lines of text reports: paragraphs under a topic, what rich draws without loose ends, and plain ASCII."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

from laptime.records.run import Run
from laptime.reports import _words as words

INDENT = 12
GAP = "  "
# textwrap breaks at plain blanks only, and no printable name has this one.
_TIED = "\xa0"
_UNIT = re.compile(r"(?<=[\d\]]) (?=(?:%|[numk]?s|min|[KMGT]?i?B(?:/s)?)(?![\w/]))")
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WORDS = str.maketrans({
    "·": "|", "±": "+-", "×": "x", "…": "~", "→": "->", "–": "-", "—": "-", "“": '"', "”": '"', "’": "'",
    "µ": "u", "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "=", "▍": "=", "▎": "-", "▏": "-",
    "▁": "_", "▂": "_", "▃": ".", "▄": "-", "▅": "=", "▆": "+", "▇": "#", "\xa0": " ",
})  # fmt: skip


def console(*, color: bool) -> Console:
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
    out = console(color=color)
    with out.capture() as captured:
        for line in lines:
            line.rstrip()
            out.print(line, soft_wrap=True)
    return captured.get()


def drawn(table: RenderableType) -> list[Text]:
    """What rich makes of a table, line by line."""
    out = console(color=True)
    rows = out.render_lines(table, out.options, pad=False)
    return [Text.assemble(*((part.text, part.style or "") for part in row)) for row in rows]


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
    lines = textwrap.wrap(
        _UNIT.sub(_TIED, text),
        max(width, 40),
        initial_indent=first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_TIED, " ") for line in lines] or [first.rstrip()]


def shortened(text: str, most: int) -> str:
    """The text with its middle left out: both ends of a name say more than the middle."""
    if cell_len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[head + 1 - most :]}"


def fill(text: str, width: int) -> str:
    """The blanks that make a text this wide."""
    return " " * (width - cell_len(text))


def bar_drawn(share: float, width: int) -> str:
    """A bar to an eighth of a column."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()) or "▏"


def brief_footer(run: Run | None) -> str:
    """Where the run is kept, and what shows the rest."""
    if run is None:
        return "--details shows the rest"
    if (save := run.plan.get("save")) is not None and save.value is False:
        return "Not saved   --details shows the rest"
    state = f", {run.status}" if run.status in ("running", "interrupted") else ""
    return f"Saved {run.id}{state}   the rest: laptime show {run.id} --details"


def footer(run: Run) -> str:
    """Where the run is kept, and what to type for a page of it."""
    if (save := run.plan.get("save")) is not None and save.value is False:
        return "Not saved"
    return f"Saved {run.id}   next: laptime show last -o report.html"


def in_ascii(text: str) -> str:
    """The same text with other signs for what ASCII has not; letters lose their accents, others become ?."""
    plain = unicodedata.normalize("NFKD", text.translate(_WORDS))
    kept = "".join(sign for sign in plain if not unicodedata.combining(sign))
    return kept.encode("ascii", "replace").decode()
