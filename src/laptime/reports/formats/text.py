"""The report on a terminal: verdict first, then the sections, digits no finer than the interval."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from rich.table import Table as RichTable
from rich.text import Text as Line

from laptime.kit.text import count
from laptime.kit.units import percent
from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.reports import text_layout as layout
from laptime.reports._words import printable
from laptime.reports.documents import document
from laptime.reports.shown import blocks, sections

NAME = "text"
SUFFIXES: tuple[str, ...] = (".txt",)
_STYLES = {"neutral": "bold blue", **dict.fromkeys(("unknown", "advice", "next"), "bold")}
NARROWEST = 40
_BAR = 20
_LONGEST_TOPIC = 16
_LONGEST_BAR_NAME = 28
_BAR_NAMES = 24
_WIDE = 72


def render(run: Run, **look: Any) -> str:
    """The report of a run. look: as for `render_document`."""
    return render_document(document(run), **look)


def render_document(
    document: doc.Document,
    *,
    color: bool = False,
    width: int = 100,
    brief: bool = False,
    unicode: bool = True,
) -> str:
    """Lines of at most `width` columns; only commands to copy and numbers may be longer.
    color: with ANSI colours, which repeat what the words say. brief: the answer, its numbers, the reason,
    what to type next, and where the run is kept. unicode: False if the terminal can show nothing but
    ASCII."""
    is_brief = brief and document.brief
    lines = (_brief if is_brief else _whole)(document, max(width, NARROWEST))
    text = layout.print_lines(lines, color=color)
    return text if unicode else layout.in_ascii(text)


def _whole(document: doc.Document, width: int) -> list[Line]:
    verdict = document.verdict
    lines = [*_paragraph(f"{document.verb} {document.title}", width), *_verdict(verdict, width)]
    lines += _topic("next", verdict.next, 0)
    if document.conditions:
        lines += [Line(), *_paragraph(" · ".join(document.conditions), width, style="dim")]
    for section in sections(document, "terminal"):
        title = [Line(printable(section.title), style="bold")] if section.headed else []
        lines += [Line(), *title, *_blocks(section.blocks, width, layout.GAP if section.headed else "")]
    lines += [Line(), *_topic("warning", document.warnings, width)] if document.warnings else []
    if document.run is not None:
        lines += [Line(), Line(printable(layout.footer(document.run, brief=False)))]
    return lines


def _brief(document: doc.Document, width: int) -> list[Line]:
    """The answer with its numbers, the reason, the first command, and where the rest is."""
    verdict, numbers = _verdict(document.verdict, width), list(document.brief)
    lines = _blocks(blocks(numbers, "terminal"), width, "")
    lines = [*verdict, *lines] if document.answers else [*lines, *verdict]
    lines += _topic("next", document.verdict.next[:1], 0)
    lines += _topic("warning", document.warnings, width)
    return [*lines, Line(printable(layout.footer(document.run, brief=True)), style="dim")]


def _topic(topic: str, texts: Sequence[str], width: int) -> list[Line]:
    """Texts under a topic that is written once."""
    topics = [topic, *[""] * len(texts)]
    lines = [
        layout.lay_out(t, text, width, style=_style(topic)) for t, text in zip(topics, texts, strict=False)
    ]
    return list(chain.from_iterable(lines))


def _verdict(verdict: doc.Headline, width: int) -> list[Line]:
    if len(verdict.word) < layout.INDENT - 1:
        return layout.lay_out(verdict.word, verdict.sentence, width, style=_style(verdict.tone))
    word = printable(verdict.word)
    sentence = _paragraph(f"{word}: {verdict.sentence}", width)
    sentence[0].stylize(_style(verdict.tone), 0, len(word))
    return sentence


def _paragraph(text: str, width: int, *, style: str = "", indent: int = 0) -> list[Line]:
    return [Line(line, style=style) for line in layout.wrap("", printable(text), width, indent=indent)]


def _blocks(blocks: Sequence[doc.Block], width: int, lead: str) -> list[Line]:
    blocks = _unfold(blocks)
    topics = [topic for block in blocks if isinstance(block, doc.Facts) for topic, _ in block.rows]
    topics += [block.title for block in blocks if isinstance(block, doc.Bars)]
    topics += [f"{number} {each.severity}" for number, each in enumerate(_advice(blocks), 1)]
    longest = max((len(topic) for topic in topics if len(topic) <= _LONGEST_TOPIC), default=0)
    indent = max(layout.INDENT, len(lead) + longest + 2)
    lines: list[Line] = []
    apart = False
    for block in blocks:
        is_apart = isinstance(block, doc.Table | doc.Views | doc.Code | doc.Group | doc.Failure)
        lines += [Line()] if lines and (apart or is_apart) else []
        number = next((index for index, each in enumerate(_advice(blocks), 1) if each is block), 0)
        lines += _block(block, width, lead, indent, number)
        apart = is_apart
    return lines


def _unfold(blocks: Sequence[doc.Block]) -> list[doc.Block]:
    """Return blocks with the contents of folds in line with the rest, with one indent for all."""
    unfolded: list[doc.Block] = []
    for block in blocks:
        unfolded += _unfold(block.blocks) if isinstance(block, doc.Folded | doc.Panels) else [block]
    return unfolded


def _advice(blocks: Sequence[doc.Block]) -> list[doc.Advice]:
    return [block for block in blocks if isinstance(block, doc.Advice)]


def _block(block: doc.Block, width: int, lead: str, indent: int, number: int) -> list[Line]:
    match block:
        case doc.Text():
            return _paragraph(block.text, width, style="dim", indent=len(lead))
        case doc.Facts():
            lines, before = [], ""
            for topic, text in block.rows:
                shown = lead + ("" if topic == before else topic)
                is_command = text.startswith("next: ")
                lines += layout.lay_out(
                    shown, text, 0 if is_command else width, style=_style(topic), indent=indent
                )
                before = topic or before
            return lines
        case doc.Bars():
            return _bars(block, width, lead, indent)
        case doc.Table():
            return layout.lines(block, width)
        case doc.Views():
            return layout.lines(block.tables[0], width)
        case doc.Advice():
            return _finding(block, number, width, lead, indent)
        case doc.Notices():
            return [line for row in block.rows for line in _notice(row, width, lead, indent)]
        case doc.Failure():
            return _failure(block, width, indent)
        case doc.Code():
            return _code(block, width, lead)
        case doc.Group():
            title = Line(f"{lead}{printable(block.title)}", style="bold")
            return [title, *_blocks(block.blocks, width, lead + layout.GAP)]
    return []


def _style(level: str) -> str:
    colour = layout.style_of(level)
    return f"bold {colour}" if colour else _STYLES.get(level, "dim")


def _notice(row: doc.Notice, width: int, lead: str, indent: int) -> list[Line]:
    lines = layout.lay_out(lead + row.level, row.text, width, style=_style(row.level), indent=indent)
    return lines + (layout.lay_out("", f"next: {row.next}", 0, indent=indent) if row.next else [])


def _bars(bars: doc.Bars, width: int, lead: str, indent: int) -> list[Line]:
    """Name, number, share, bar and note a line; if there is no room the bar goes, then the note."""
    whole = bars.whole or max((bar.value for bar in bars.rows), default=0.0) or 1.0
    grid = RichTable.grid(padding=(0, len(layout.GAP), 0, 0))
    grid.add_column(no_wrap=True)
    for _ in range(2):
        grid.add_column(justify="right", no_wrap=True)
    names = [layout.shorten(printable(bar.name), _LONGEST_BAR_NAME) for bar in bars.rows]
    if width >= _WIDE:  # bars of several blocks begin in one column
        names = [name + layout.fill(name, _BAR_NAMES) for name in names]
    shares = ["" if bar.share is None else percent(bar.share) for bar in bars.rows]
    columns = (names, [bar.text for bar in bars.rows], shares)
    taken = len(lead) + 3 * len(layout.GAP) + sum(max(map(len, column)) for column in columns)
    length = min(_BAR, width - taken)
    room = width - taken - length - len(layout.GAP)
    for name, share, bar in zip(names, shares, bars.rows, strict=True):
        row: list[str | Line] = [name, bar.text, share]
        part = bar.value / whole if bar.share is None else bar.share
        row += [Line(layout.bar_drawn(part, length), style="cyan")] if length > 3 else []
        note = printable(bar.note)
        row += [Line(note, style="dim")] if length > 3 and note and len(note) <= room else []
        grid.add_row(*row)
    title = layout.lay_out(lead + bars.title, bars.note, width, indent=indent) if bars.title else []
    return title + [Line(lead).append(line) for line in layout.draw(grid)]


def _finding(advice: doc.Advice, number: int, width: int, lead: str, indent: int) -> list[Line]:
    share = f" ({advice.share})" if advice.share else ""
    gain = f"up to {advice.gain}{share}: " if advice.gain else ""
    topic = f"{lead}{number} {advice.severity}"
    lines = layout.lay_out(topic, gain + advice.sentence, width, style=_style(advice.severity), indent=indent)
    if change := " · ".join(filter(None, (advice.change, advice.place))):
        lines += layout.lay_out("", change, width, indent=indent)
    return lines + [
        line for each in advice.commands for line in layout.lay_out("", f"next: {each}", 0, indent=indent)
    ]


def _failure(failure: doc.Failure, width: int, indent: int) -> list[Line]:
    lines = layout.lay_out(failure.status, failure.name, width, style=_style(failure.status), indent=indent)
    for lead, text in (("", failure.what), ("why: ", failure.why), ("next: ", failure.next)):
        if text:
            lines += layout.lay_out("", lead + text, 0 if lead == "next: " else width, indent=indent)
    return lines


def _code(code: doc.Code, width: int, lead: str) -> list[Line]:
    source = [line for line in code.text.rstrip("\n").split("\n") if not line.startswith("diff --git ")]
    lines = [Line(lead + printable(code.title), style="bold")] if code.title else []
    for text in source[: code.brief]:
        cut = printable(text.expandtabs(4))[: width - len(lead)]
        lines.append(Line(lead + cut, style="dim"))
    more = len(source) - code.brief
    return lines + ([Line(f"{lead}and {count(more, 'line')} more: --json", style="dim")] if more > 0 else [])
