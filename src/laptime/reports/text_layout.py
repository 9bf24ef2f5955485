"""Lines of text reports: paragraphs under a topic, tables drawn by rich, and plain ASCII.

In tables numbers are never cut, names lose their middle, and columns give way."""

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator
from io import StringIO
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports._words import printable
from laptime.reports.document import Cell, Row, Table
from laptime.reports.shown import alone

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
_COLOURS = {"trusted": "green", "noisy": "yellow", "invalid": "red"}
_STYLES = {"strong": "bold", "weak": "dim", "bar": "cyan"}
_SHORTEST_NAME = 16
_NARROW_NAME = 8
_STACKED = 60  # lines of a table with a cell a line, at most; beyond that columns are left out
_BAR = 20
_BARS = 100  # bars give way before every other column


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


def print_lines(lines: Iterable[Text], *, color: bool) -> str:
    """The lines as one text, nothing hanging over their ends."""
    out = console(color=color)
    with out.capture() as captured:
        for line in lines:
            line.rstrip()
            out.print(line, soft_wrap=True)
    return captured.get()


def draw(table: RenderableType) -> list[Text]:
    """Return rich's drawing of a table, line by line."""
    out = console(color=True)
    rows = out.render_lines(table, out.options, pad=False)
    return [Text.assemble(*((part.text, part.style or "") for part in row)) for row in rows]


def style_of(word: str) -> str:
    """Say how a word of a verdict, or what stands out in a table, is written; "" as everything else."""
    return _STYLES.get(word) or _COLOURS.get(words.TONES.get(word, ""), "")


def lay_out(topic: str, text: str, width: int, *, style: str = "dim", indent: int = INDENT) -> list[Text]:
    """`topic      text`, continued under the text; width 0 leaves it on one line."""
    text = words.printable(text)
    body = wrap(topic, text, width, indent=indent) if width else [topic.ljust(indent - 1) + " " + text]
    return [
        Text.assemble((body[0][: len(topic)], style), body[0][len(topic) :]),
        *(Text(line) for line in body[1:]),
    ]


def wrap(topic: str, text: str, width: int, *, indent: int = INDENT) -> list[str]:
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


def shorten(text: str, most: int) -> str:
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


def footer(run: Run | None, *, brief: bool) -> str:
    """Say where the run is kept, and what to type for the rest, or for a page of it."""
    if run is None:
        return "--details shows the rest"
    if (save := run.plan.get("save")) is not None and save.value is False:
        return "Not saved" + "   --details shows the rest" * brief
    if not brief:
        return f"Saved {run.id}   next: laptime show last -o report.html"
    state = f", {run.status}" if run.status in ("running", "interrupted") else ""
    return f"Saved {run.id}{state}   the rest: laptime show {run.id} --details"


def in_ascii(text: str) -> str:
    """The same text with other signs for what ASCII has not; letters lose their accents, others become ?."""
    plain = unicodedata.normalize("NFKD", text.translate(_WORDS))
    kept = "".join(sign for sign in plain if not unicodedata.combining(sign))
    return kept.encode("ascii", "replace").decode()


class _Shown(NamedTuple):
    """A column as texts; only names may be shortened."""

    title: str
    texts: list[str]
    tones: list[str]
    regime: str = ""
    kind: Literal["number", "name", "bar"] = "number"
    priority: int = 0


def lines(table: Table, width: int) -> list[Text]:
    """The table on at most `width` columns; else a cell a line, if that is short."""
    columns: list[_Shown] = []
    for columns in _layouts(table):
        if (fitting := _fit(columns, width)) is not None:
            return _grid(table, fitting, width)
    stacked = _stack(table, next(_layouts(table)))
    return stacked if len(stacked) <= _STACKED else _narrow(table, columns, width) or stacked


def _narrow(table: Table, columns: list[_Shown], width: int) -> list[Text]:
    """Without the last numbers, and which they are; nothing if names and the first number do not fit."""
    kept, left_out = list(columns), list[str]()
    while (fitting := _fit(kept, width, shortest=_NARROW_NAME)) is None:
        numbers = [index for index, column in enumerate(kept) if column.kind != "name"][1:]
        if not numbers:
            return []
        left_out.insert(0, kept.pop(numbers[-1]).title)
    note = f"a wider terminal also shows {', '.join(filter(None, left_out))}"
    lines = _grid(table, fitting, width)
    return [*lines, *(Text(line, style="dim") for line in wrap("", note, width, indent=len(GAP)))]


def _layouts(table: Table) -> Iterator[list[_Shown]]:
    """Yield layouts from wide to narrow: with intervals, with half widths, without the least columns."""
    both = [_columns(table, exact=exact) for exact in (True, False)]
    priorities = sorted({column.priority for column in both[0] if column.priority}, reverse=True)
    for least in [_BARS + 1, *priorities]:
        for columns in both:
            yield [column for column in columns if column.priority < least]


def _columns(table: Table, *, exact: bool) -> list[_Shown]:
    columns: list[_Shown] = []
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in table.rows]
        columns.append(
            _Shown(
                printable(column.title),
                [printable(alone(column.kind, cell)) for cell in cells],
                [cell.tone if isinstance(cell, Cell) else "" for cell in cells],
                column.regime,
                "name" if column.kind in ("text", "code") else "number",
                column.priority,
            )
        )
        if index == 0:  # with the depth of its rows, and how many rows there are
            deep = zip(table.rows, columns[0].texts, strict=True)
            some = f" ({len(table.rows)} of {table.total:,})" if table.total > len(table.rows) else ""
            texts = [f"{GAP * (row.depth or 0)}{text}" for row, text in deep]
            columns[0] = columns[0]._replace(title=columns[0].title + some, texts=texts)
        if column.bar and column.kind == "share":
            bars = [bar_drawn(cell, _BAR) if isinstance(cell, int | float) else "" for cell in cells]
            columns.append(_Shown("", bars, ["bar"] * len(bars), kind="bar", priority=_BARS))
        both = [(cell.interval, cell.margin) if isinstance(cell, Cell) else ("", "") for cell in cells]
        intervals = [interval if exact else margin for interval, margin in both]
        if any(intervals) and not any(shown.title.startswith("95 %") for shown in columns):
            title = "95 % interval" if exact else "95 %"
            columns.append(_Shown(title, [text or "-" for text in intervals], [""] * len(cells)))
    return columns


def _width(column: _Shown) -> int:
    return max(map(cell_len, (column.title, column.regime, *column.texts)))


def _fit(columns: list[_Shown], width: int, shortest: int = _SHORTEST_NAME) -> list[_Shown] | None:
    """The columns with names as short as needed; None if they do not fit."""
    fitting = list(columns)
    while (over := sum(len(GAP) + _width(column) for column in fitting) - width) > 0:
        names = [index for index, column in enumerate(fitting) if column.kind == "name"]
        place = max(names, key=lambda at: _width(fitting[at]), default=0)
        longest = _width(fitting[place])
        least = max(cell_len(fitting[place].title), cell_len(fitting[place].regime), shortest)
        if not names or longest <= least:
            return None
        most = max(least, longest - over)
        fitting[place] = fitting[place]._replace(texts=[shorten(t, most) for t in fitting[place].texts])
        if _width(fitting[place]) >= longest:
            return None  # characters that are two columns wide do not always get shorter
    return fitting


def _grid(table: Table, columns: list[_Shown], width: int) -> list[Text]:
    grid = RichTable(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), show_edge=False)
    regimes = any(column.regime for column in columns)
    for column in columns:
        head = Text.assemble((column.title, "bold"), (f"\n{column.regime}" if regimes else "", "dim"))
        grid.add_column(head, justify="right" if column.kind == "number" else "left", no_wrap=True)
    for index, row in enumerate(table.rows):
        cells = [Text(column.texts[index], style=style_of(column.tones[index])) for column in columns]
        grid.add_row(*cells, style=style_of(row.tone))
    lines = [Text(GAP).append(line) for line in draw(grid)]
    titles = lines[: len(lines) - len(table.rows)]
    body = zip(table.rows, lines[len(titles) :], strict=True)
    return [*titles, *(line for row, text in body for line in (text, *_notes(row, width)))]


def _notes(row: Row, width: int) -> list[Text]:
    notes = [wrap("", printable(note), width, indent=2 * len(GAP)) for note in row.notes]
    return [Text(line, style="dim") for note in notes for line in note]


def _stack(table: Table, columns: list[_Shown]) -> list[Text]:
    """For narrow terminals: a row a block, a cell a line."""
    names = [f"{column.title} ({column.regime})" if column.regime else column.title for column in columns]
    wide = max(map(cell_len, names))
    lines: list[Text] = []
    for index, row in enumerate(table.rows):
        pairs = zip(names, [column.texts[index] for column in columns], strict=True)
        lines += [Text(f"{GAP}{name}{fill(name, wide)}{GAP}{text}") for name, text in pairs]
        lines += [*_notes(row, 0), Text()]
    return lines[:-1]
