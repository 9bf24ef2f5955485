"""Any document as one page: complete, offline, readable without JavaScript, safe with hostile names.

Everything is drawn here: tables and bars as HTML, charts as SVG. The script sorts, searches and folds tables,
draws the timeline, copies commands and switches the theme. Folders of the machine are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup

from laptime.reports import document as doc
from laptime.reports import shown as columns
from laptime.reports._words import plain
from laptime.reports.document import Bar, Bars, Cell, Column, Row, Table, Value
from laptime.reports.page.one_file import asset, inlined, packed, policy, template
from laptime.reports.page.svg import BROAD, HALF, NARROW, el
from laptime.reports.shown import in_columns, sections, share

_LINE = 40
"""Letters from which words are a sentence, which wraps."""
_WIDTH = 1000.0
_DIFF = {"+++": "file", "---": "file", "diff": "file", "@@": "hunk", "+": "added", "-": "removed"}


class PageCell(NamedTuple):
    """A cell; `bar`: its width in percent, `classes`: alignment, `long` for a sentence, its word."""

    text: str
    bar: int
    cell: Cell | None
    classes: str


class PageRow(NamedTuple):
    """A row with its anchor."""

    anchor: str
    row: Row
    cells: list[PageCell]


class Head(NamedTuple):
    """The head of a column."""

    column: Column
    unit: str

    @property
    def align(self) -> str:
        """Classes of its cells: `l` for words, `c` for names from programs."""
        return {"text": "l", "code": "l c"}.get(self.column.kind, "")


class PageTable(NamedTuple):
    """A table; `anchors`: of its rows by `TABLE/KEY`, `left_out`: rows that are not in the page."""

    heads: list[Head]
    rows: list[PageRow]
    left_out: int
    anchors: dict[str, str]


def table_shown(table: Table, linked: Collection[str] = ()) -> PageTable:
    """The first rows, and linked ones (`TABLE/KEY`) wherever they stand."""
    rows = [row for at, row in enumerate(table.rows) if at < table.most or f"{table.id}/{row.key}" in linked]
    filled = [
        index
        for index, column in enumerate(table.columns)
        if index == 0 or any(not _empty(row.cells[index]) for row in rows)
    ]
    columns = [table.columns[index] for index in filled]
    values = [[row.cells[index] for index in filled] for row in rows]
    texts = in_columns(columns, values)
    heads = [Head(column, text.unit) for column, text in zip(columns, texts, strict=True)]
    page_rows = []
    for number, (row, raw) in enumerate(zip(rows, values, strict=True)):
        cells = [
            _cell(head, plain(text.cells[number]), text.bars[number], value)
            for head, text, value in zip(heads, texts, raw, strict=True)
        ]
        page_rows.append(PageRow(f"{table.id}-{number}", row, cells))
    anchors = {f"{table.id}/{line.row.key}": line.anchor for line in reversed(page_rows)}
    return PageTable(heads, page_rows, len(table.rows) - len(rows), anchors)


def _cell(head: Head, text: str, bar: int, value: Value | Cell) -> PageCell:
    ready = value if isinstance(value, Cell) else None
    classes = [head.align] if head.align else []
    classes += ["long"] if head.column.kind == "text" and len(text) > _LINE else []
    classes += [f"word {ready.tone}"] if ready and ready.tone else []
    return PageCell(text, bar, ready, " ".join(classes))


def _empty(value: Value | Cell) -> bool:
    return value in (None, "", 0) or (
        isinstance(value, Cell) and value.text in ("", "-") and value.draw is None
    )


class PageBars(NamedTuple):
    """Bars with their drawings: one band for all rows, or one drawing a row."""

    bars: Bars
    band: Markup | None
    rows: list[tuple[Bar, Markup]]
    legend: Sequence[Bar]


def bars_shown(bars: Bars) -> PageBars:
    """The drawings of a block of bars, all on one scale."""
    rows = [row for row in bars.rows if row.detail != "text"]
    if bars.stacked:
        band = _drawn(rows, sum(row.value for row in rows), bars.title)
        return PageBars(bars, band, [], bars.legend or rows)
    ends = [end for row in rows for end in (row.value, *(row.interval or ()))]
    longest = bars.whole or max(ends, default=0.0)
    drawn = [(row, _drawn(row.parts or [row], longest, row.name, row.interval)) for row in rows]
    return PageBars(bars, None, drawn, bars.legend)


def _drawn(
    parts: Sequence[Bar], whole: float, label: str, interval: tuple[float, float] | None = None
) -> Markup:
    """Parts end to end, and a whisker for an interval; the full width stands for `whole`."""
    scale = _WIDTH / whole if whole > 0 else 0.0
    marks, x = [], 0.0
    for part in parts:
        percent = "" if part.share is None else f" ({share(part.share)})"
        title = el("title", f"{plain(part.name or label)}: {part.text}{percent}")
        width = max(0.0, part.value * scale)
        marks.append(el("rect", title, x=x, y=0.0, width=width, height=20.0, class_=f"fill p-{part.kind}"))
        x += width
    if interval is not None:
        low, high = (min(max(end * scale, 0.0), _WIDTH) for end in sorted(interval))
        marks.append(el("rect", x=low, width=max(1.0, high - low), y=9, height=2, class_="whisker"))
        marks += [el("rect", x=end - 1, width=2, y=5, height=10, class_="whisker") for end in (low, high)]
    return el(
        "svg",
        el("title", plain(label) or ", ".join(f"{plain(part.name)} {part.text}" for part in parts) or "bar"),
        *marks,
        viewBox=f"0 0 {_WIDTH:g} 20",
        preserveAspectRatio="none",
        role="img",
        class_="band",
    )


def dial(part: float) -> Markup:
    """A share from 0 to 1 as a ring with its number."""
    ring = el(
        "circle",
        cx=50,
        cy=50,
        r=42,
        pathLength="100",
        stroke_dasharray=f"{100 * min(max(part, 0), 1):.1f} 100",
        transform="rotate(-90 50 50)",
        class_="arc",
    )
    return el(
        "svg",
        el("circle", cx=50, cy=50, r=42, class_="rim"),
        ring,
        el("text", f"{100 * part:.0f} %", x=50, y=58, class_="middle"),
        viewBox="0 0 100 100",
        class_="dial",
        aria_hidden="true",
    )


def render(document: doc.Document) -> str:
    """The whole page."""
    leading = sorted(sections(document, "page"), key=lambda section: not section.lead)
    blocks = [block for section in leading for block in _inside(section.blocks)]
    linked = {link for block in blocks if isinstance(block, doc.Advice) for link, _ in block.links}
    shown = {id(block): table_shown(block, linked) for block in blocks if isinstance(block, doc.Table)}
    anchors = {link: anchor for table in shown.values() for link, anchor in table.anchors.items()}
    anchors |= {block.id: block.id for block in blocks if isinstance(block, doc.Group) and block.id}
    plots = {id(block): block.plot() for block in blocks if isinstance(block, doc.Chart)}
    points = {name: told for name, plot in plots.items() if (told := plot.points()) is not None}
    has_timeline = any(isinstance(block, doc.Timeline) for block in blocks)
    style = asset("document.css")
    script = asset("shell.js", "tables.js", *["timeline.js"] * has_timeline, *["tooltips.js"] * bool(points))
    whole = template(asset("document.html")).render(
        document=document,
        sections=leading,
        policy=policy(style, script),
        style=Markup(style),  # noqa: S704 (a file of ours)
        script=Markup(script),  # noqa: S704
        groups=_groups,
        table_of=lambda block: shown.get(id(block)) or table_shown(block),
        bars_of=bars_shown,
        plot_of=lambda chart: plots[id(chart)],
        widths=lambda chart: [("half", HALF)] if chart.half else [("broad", BROAD), ("narrow", NARROW)],
        links_of=lambda advice: _links(advice, anchors),
        lines=_lines,
        series=lambda chart: list(points).index(id(chart)) if id(chart) in points else None,
        points=inlined({"series": [*points.values()]}) if points else "",
        report=lambda: inlined(document.data()),
        dial=dial,
        share=columns.share,
        packed=packed,
    )
    return whole.lstrip()  # the macros before it leave empty lines


def _inside(blocks: Sequence[doc.Block]) -> Iterator[doc.Block]:
    for block in blocks:
        yield block
        if isinstance(block, doc.Panels | doc.Group | doc.Folded):
            yield from _inside(block.blocks)
        if isinstance(block, doc.Views):
            yield from _inside(block.tables)


def _groups(blocks: Sequence[doc.Block]) -> Iterable[tuple[str, list[doc.Block]]]:
    kinds = itertools.groupby(blocks, key=lambda block: type(block).__name__)
    return [(kind, list(group)) for kind, group in kinds]


def _links(advice: doc.Advice, anchors: dict[str, str]) -> list[tuple[str, str]]:
    """(anchor, words) of the rows behind a finding; the first row of its table where none is in the page."""
    links = [(anchors[link], text) for link, text in advice.links if link in anchors]
    if advice.links and not links:
        table = advice.links[0][0].partition("/")[0]
        links = [(anchor, table) for link, anchor in anchors.items() if link.startswith(f"{table}/")][:1]
    return links


def _lines(code: doc.Code) -> list[tuple[str, str]]:
    """(class, text) of each line; lines of a diff have one for what they are."""
    rows = []
    for line in code.text.splitlines():
        is_diff = code.language == "diff"
        kind = next((kind for start, kind in _DIFF.items() if is_diff and line.startswith(start)), "")
        rows.append((kind, plain(line.expandtabs(4))))
    return rows
