"""Any document as one page: complete, offline, readable without JavaScript, safe with hostile names.

Everything is drawn here: tables as HTML, charts as SVG. The script sorts, searches and folds tables, draws
the timeline, copies commands and switches the theme. Folders of the machine are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup

from laptime.reports import document as doc
from laptime.reports import shown as columns
from laptime.reports._words import plain
from laptime.reports.page.blocks import bars_shown, dial, table_shown
from laptime.reports.page.one_file import asset, inlined, packed, policy, template
from laptime.reports.page.svg import BROAD, HALF, NARROW
from laptime.reports.shown import sections

_DIFF = {"+++": "file", "---": "file", "diff": "file", "@@": "hunk", "+": "added", "-": "removed"}


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
    """All blocks, those inside others too."""
    for block in blocks:
        yield block
        if isinstance(block, doc.Panels | doc.Group | doc.Folded):
            yield from _inside(block.blocks)
        if isinstance(block, doc.Views):
            yield from _inside(block.tables)


def _groups(blocks: Sequence[doc.Block]) -> Iterable[tuple[str, list[doc.Block]]]:
    """Neighbours of one kind together, with the kind's name."""
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
