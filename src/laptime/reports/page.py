"""Any document as one page: complete, offline, readable without JavaScript, safe with hostile names.

Everything is drawn here: tables as HTML, charts as SVG. The script sorts, searches and folds tables, draws
the timeline, copies commands and switches the theme. Folders of the machine are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup
from msgspec import structs

from laptime.reports import _page_bars, _page_tables, columns
from laptime.reports._onefile import asset, inlined, plain, policy, template
from laptime.reports._packed import packed
from laptime.reports.document import (
    Advice,
    Bars,
    Block,
    Chart,
    Code,
    Document,
    Facts,
    Folded,
    Group,
    Notices,
    Panels,
    Section,
    Table,
    Timeline,
    Views,
)

_DIFF = {"+++": "file", "---": "file", "diff": "file", "@@": "hunk", "+": "added", "-": "removed"}


def render(document: Document) -> str:
    """The whole page."""
    sections = [section for section in map(_section, document.sections) if section.blocks]
    sections.sort(key=lambda section: not section.lead)
    blocks = [block for section in sections for block in _inside(section.blocks)]
    linked: dict[str, set[str]] = {}
    for block in blocks:
        for link, _ in block.links if isinstance(block, Advice) else ():
            table, _, key = link.partition("/")
            linked.setdefault(table, set()).add(key)
    tables = {
        id(block): _page_tables.shown(block, linked.get(block.id, ()))
        for block in blocks
        if isinstance(block, Table)
    }
    anchors = {
        f"{table.table.id}/{key}": anchor
        for table in tables.values()
        for key, anchor in table.anchors.items()
    }
    anchors |= {block.id: block.id for block in blocks if isinstance(block, Group) and block.id}
    charts = [block for block in blocks if isinstance(block, Chart) and block.points is not None]
    has_timeline = any(isinstance(block, Timeline) for block in blocks)
    style = asset("document.css")
    script = asset("shell.js", "tables.js", *["timeline.js"] * has_timeline, *["tooltips.js"] * bool(charts))
    whole = template(asset("document.html")).render(
        document=document,
        sections=sections,
        policy=policy(style, script),
        style=Markup(style),  # noqa: S704 (a file of ours)
        script=Markup(script),  # noqa: S704
        groups=_groups,
        visible=_visible,
        table_of=lambda block: tables.get(id(block)) or _page_tables.shown(block, ()),
        bars_of=_page_bars.shown,
        links_of=lambda advice: _links(advice, anchors),
        lines=_lines,
        series=charts.index,
        points=lambda: inlined({"series": [chart.points() for chart in charts if chart.points]}),
        has_points=bool(charts),
        report=lambda: inlined(document.data()),
        dial=_page_bars.dial,
        share=columns.share,
        packed=packed,
    )
    return whole.lstrip()  # the macros before it leave empty lines


def _section(section: Section) -> Section:
    blocks = [] if section.detail == "text" else _visible(section.blocks)
    return structs.replace(section, blocks=blocks)


def _visible(blocks: Sequence[Block]) -> list[Block]:
    """Blocks that the page shows and that are not empty."""
    return [block for block in blocks if block.detail != "text" and not _is_empty(block)]


def _is_empty(block: Block) -> bool:
    if isinstance(block, Facts | Bars | Table | Notices):
        return not block.rows
    if isinstance(block, Panels | Group | Folded):
        return not _visible(block.blocks)
    if isinstance(block, Views):
        return not _visible(block.tables)
    return isinstance(block, Code) and not block.text


def _inside(blocks: Sequence[Block]) -> Iterator[Block]:
    """All blocks, those inside others too."""
    for block in _visible(blocks):
        yield block
        if isinstance(block, Panels | Group | Folded):
            yield from _inside(block.blocks)
        if isinstance(block, Views):
            yield from _inside(block.tables)


def _groups(blocks: Sequence[Block]) -> Iterable[tuple[str, list[Block]]]:
    """Neighbours of one kind together, with the kind's name."""
    kinds = itertools.groupby(_visible(blocks), key=lambda block: type(block).__name__)
    return [(kind, list(group)) for kind, group in kinds]


def _links(advice: Advice, anchors: dict[str, str]) -> list[tuple[str, str]]:
    """(anchor, words) of the rows behind a finding; the first row of its table where none is in the page."""
    links = [(anchors[link], text) for link, text in advice.links if link in anchors]
    if advice.links and not links:
        table = advice.links[0][0].partition("/")[0]
        links = [(anchor, table) for link, anchor in anchors.items() if link.startswith(f"{table}/")][:1]
    return links


def _lines(code: Code) -> list[tuple[str, str]]:
    """(class, text) of each line; lines of a diff have one for what they are."""
    rows = []
    for line in code.text.splitlines():
        is_diff = code.language == "diff"
        kind = next((kind for start, kind in _DIFF.items() if is_diff and line.startswith(start)), "")
        rows.append((kind, plain(line.expandtabs(4))))
    return rows
