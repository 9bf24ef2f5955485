"""The report for a pull request comment or a README: verdict, tables, findings, the rest folded away."""

import re
from collections.abc import Iterable, Sequence

from markupsafe import escape as in_html

from laptime.kit.units import percent
from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.reports import shown
from laptime.reports._words import plain
from laptime.reports.documents import document
from laptime.reports.shown import alone, sections

NAME = "markdown"
SUFFIXES: tuple[str, ...] = (".md", ".markdown")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@$-])")
_SPECIAL_IN_TEXT = re.compile(r"([\\`*_\[\]<>#|~&@$])")


def render(run: Run) -> str:
    """GitHub-flavoured Markdown; names of the user's are escaped, folders and the host's name left out."""
    return render_document(document(run))


def render_document(document: doc.Document) -> str:
    """Any document."""
    verdict = document.verdict
    head = [f"**{_text(verdict.word)}**: {_text(verdict.sentence)}"]
    head += [f"**next**: {_quote(command)}" for command in verdict.next]
    blocks = [
        f"### {_text(document.verb)} {_name(document.title)}",
        "  \n".join(head),
        _text(" · ".join(document.conditions)),
        *(_section(section) for section in sections(document, "markdown")),
        "\n".join(f"- warning: {_text(warning)}" for warning in document.warnings),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _section(section: doc.Section) -> str:
    body = _blocks(section.blocks)
    if section.folded or section.detail == "folded":
        return _fold(section.title, body)
    return f"**{_text(section.title)}**\n\n{body}" if section.headed else body


def _blocks(blocks: Sequence[doc.Block]) -> str:
    advice = [block for block in blocks if isinstance(block, doc.Advice)]
    parts: list[str] = []
    for block in blocks:
        if not isinstance(block, doc.Advice):
            parts.append(_block(block))
        elif block is advice[0]:
            parts.append("\n".join(_finding(number, each) for number, each in enumerate(advice, 1)))
    return "\n\n".join(filter(None, parts))


def _block(block: doc.Block) -> str:
    match block:
        case doc.Text():
            return _text(block.text)
        case doc.Facts():
            return _facts(block.rows)
        case doc.Bars():
            return _bars(block)
        case doc.Table():
            return _table(block)
        case doc.Views():
            several = len(block.tables) > 1
            return "\n\n".join(_table(table, titled=several) for table in block.tables)
        case doc.Notices():
            rows = [(row, f" ({_quote(row.next)})" if row.next else "") for row in block.rows]
            return "\n".join(f"- **{_text(row.level)}**: {_text(row.text)}{next}" for row, next in rows)
        case doc.Failure():
            why = f"; why: {_text(block.why)}" if block.why else ""
            step = f"; next: {_quote(block.next)}" if block.next else ""
            return f"- **{block.status}** {_text(block.name)}: {_text(block.what)}{why}{step}"
        case doc.Code():
            return _fold(block.title or block.language, _fence(block.text, block.language))
        case doc.Group():
            return f"**{_text(block.title)}**\n\n{_blocks(block.blocks)}"
        case doc.Folded():
            return _fold(block.title, _blocks(block.blocks))
        case doc.Panels():
            return _blocks(block.blocks)
    return ""


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    """A topic an item; what follows without a topic goes on in it."""
    items: list[str] = []
    for topic, text in rows:
        if topic or not items:
            items.append(f"- {_text(topic)}: {_text(text)}")
        else:
            items[-1] += f"; {_text(text)}"
    return "\n".join(items)


def _bars(bars: doc.Bars) -> str:
    """The sentence that the bars stand for, and a row a bar."""
    sentence = f"{bars.title}: {bars.note}" if bars.note else ""
    shares = ["" if bar.share is None else percent(bar.share) for bar in bars.rows]
    notes = [bar.note for bar in bars.rows]
    columns = [
        (bars.title, True, [bar.name for bar in bars.rows]),
        ("", False, [bar.text for bar in bars.rows]),
        *([("share", False, shares)] if any(shares) else []),
        *([(" ", True, notes)] if any(notes) else []),
    ]
    heads, left, cells = zip(*columns, strict=True)
    rows = list(zip(*cells, strict=True))
    return "\n\n".join(filter(None, [_text(sentence), _rows(heads, left, rows)]))


def _table(table: doc.Table, *, titled: bool = True) -> str:
    heads = [*map(shown.title, table.columns)]
    if table.total > len(table.rows):
        heads[0] += f" ({len(table.rows)} of {table.total:,})"
    left = [column.kind in ("text", "code") for column in table.columns]
    rows = [
        [_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)]
        for row in table.rows
    ]
    if any(row.notes for row in table.rows):
        heads.append(table.notes_title)
        left.append(True)
        rows = [[*cells, "; ".join(row.notes)] for cells, row in zip(rows, table.rows, strict=True)]
    table_text = _rows(heads, left, rows)
    title = f"**{_text(table.title)}**\n\n" if table.title and titled else ""
    return title + (f"{table_text}\n\n± is half of the 95 % interval." if "±" in table_text else table_text)


def _cell(column: doc.Column, cell: doc.Value | doc.Cell) -> str:
    margin = f" {cell.margin}" if isinstance(cell, doc.Cell) and cell.margin else ""
    return alone(column.kind, cell) + margin


def _rows(heads: Sequence[str], left: Sequence[bool], rows: Sequence[Sequence[str]]) -> str:
    rules = [":---" if is_left else "---:" for is_left in left]
    escaped = [[_text(text) for text in row] for row in (heads, *rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (escaped[0], rules, *escaped[1:]))


def _finding(number: int, advice: doc.Advice) -> str:
    share = f" ({advice.share})" if advice.share else ""
    gain = f"**up to {_text(advice.gain)}{share}**: " if advice.gain else ""
    lines = [f"{number}. {gain}{_text(advice.sentence)}"]
    if advice.change:
        place = f" at {_quote(advice.place)}" if advice.place else ""
        lines.append(f"   {_text(advice.change)}{place}")
    for step in advice.commands:
        lines.append("   " + (_quote(step) if step.startswith("laptime ") else _text(step)))
    return "  \n".join(lines)


def _fold(summary: str, body: str) -> str:
    return f"<details><summary>{in_html(summary)}</summary>\n\n{body}\n\n</details>" if body else ""


def _text(sentence: str) -> str:
    """A sentence with everything escaped that could become markup, a mention or a link."""
    return _SPECIAL_IN_TEXT.sub(r"\\\1", plain(sentence))


def _name(text: str) -> str:
    """A name on its own, with everything escaped that means something anywhere in a line."""
    return _SPECIAL.sub(r"\\\1", plain(text))


def _quote(text: str) -> str:
    """Code that holds any number of backticks."""
    text = plain(text)
    ticks = "`" * (1 + _backticks(text))
    pad = " " if "`" in text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _fence(source: str, language: str) -> str:
    """A block of code that no line of the code can end."""
    body = "\n".join([plain(line.expandtabs(4)) for line in source.split("\n")]).rstrip()
    fence = "`" * max(3, 1 + _backticks(body))
    return f"{fence}{language}\n{body}\n{fence}"


def _backticks(text: str) -> int:
    return max((len(ticks) for ticks in re.findall("`+", text)), default=0)
