"""Any document as one page: complete, offline, readable without JavaScript, safe with hostile names.

Everything is drawn here: tables and bars as HTML, charts as SVG. The script sorts, searches and folds tables,
draws timeline and calls, copies commands and switches the theme. A content security policy allows only the
page's own style and script, by hash. Words of strangers are escaped by the template; folders of this machine
are cut off."""

import base64
import hashlib
import itertools
import json
import math
import zlib
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from laptime.kit.text import count
from laptime.reports import _words as words
from laptime.reports import document as doc
from laptime.reports._words import plain
from laptime.reports.document import Bars, Cell, Column, Table, Value
from laptime.reports.page.svg import BROAD, HALF, NARROW, px
from laptime.reports.shown import in_columns, sections, share

_LINE = 40  # letters from which words are a sentence, which wraps
_DIFF = {"+++": "file", "---": "file", "diff": "file", "@@": "hunk", "+": "added", "-": "removed"}
_ALIGNED = {"text": "l", "code": "l c"}
"""Classes of cells by the kind of their column: `l` for words, `c` for names from programs."""


class PageTable(NamedTuple):
    """A table for the template."""

    heads: list[dict[str, Any]]  # column, unit and align of each
    # anchor, row and cells of each; a cell has a text, the percents of its bar, itself if it was ready,
    # and classes: `long` for a sentence, its word
    rows: list[dict[str, Any]]
    left_out: int  # rows that are not in the page
    anchors: dict[str, str]  # of its rows by `TABLE/KEY`


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
    heads = [
        {"column": column, "unit": text.unit, "align": _ALIGNED.get(column.kind, "")}
        for column, text in zip(columns, texts, strict=True)
    ]
    made, anchors = list[dict[str, Any]](), dict[str, str]()
    for at, (row, raw) in enumerate(zip(rows, values, strict=True)):
        both = zip(columns, texts, raw, strict=True)
        cells = [_cell(column, plain(text.cells[at]), text.bars[at], value) for column, text, value in both]
        made.append({"anchor": f"{table.id}-{at}", "row": row, "cells": cells})
        anchors.setdefault(f"{table.id}/{row.key}", f"{table.id}-{at}")
    return PageTable(heads, made, len(table.rows) - len(rows), anchors)


def _cell(column: Column, text: str, bar: int, value: Value | Cell) -> dict[str, Any]:
    ready = value if isinstance(value, Cell) else None
    long = "long" if column.kind == "text" and len(text) > _LINE else ""
    word = f"word {ready.tone}" if ready and ready.tone else ""
    classes = " ".join(filter(None, (_ALIGNED.get(column.kind), long, word)))
    return {"text": text, "bar": bar, "cell": ready, "classes": classes}


def _empty(value: Value | Cell) -> bool:
    return value in (None, "", 0) or (
        isinstance(value, Cell) and value.text in ("", "-") and value.draw is None
    )


def longest(bars: Bars) -> float:
    """Return the value of a row's full width."""
    ends = (end for row in bars.rows for end in (row.value, *(row.interval or ())))
    return bars.whole or max(ends, default=0.0)


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
    has_stage = any(isinstance(block, doc.Stage) for block in blocks)
    style = asset("document.css")
    script = asset("shell.js", "tables.js", *["stages.js"] * has_stage, *["tooltips.js"] * bool(points))
    whole = template(asset("document.html")).render(
        document=document,
        sections=leading,
        policy=policy(style, script),
        style=Markup(style),  # noqa: S704 (a file of ours)
        script=Markup(script),  # noqa: S704
        groups=lambda blocks: itertools.groupby(blocks, key=lambda block: type(block).__name__),
        table_of=lambda block: shown.get(id(block)) or table_shown(block),
        longest=longest,
        plot_of=lambda chart: plots[id(chart)],
        widths=lambda chart: [("half", HALF)] if chart.half else [("broad", BROAD), ("narrow", NARROW)],
        links_of=lambda advice: _links(advice, anchors),
        lines=_lines,
        series=lambda chart: list(points).index(id(chart)) if id(chart) in points else None,
        points=inline({"series": [*points.values()]}) if points else "",
        report=lambda: inline(document.data()),
        share=share,
        pack=pack,
    )
    return whole.lstrip()  # the macros before it leave empty lines


def _inside(blocks: Sequence[doc.Block]) -> Iterator[doc.Block]:
    for block in blocks:
        yield block
        if isinstance(block, doc.Panels | doc.Group | doc.Folded):
            yield from _inside(block.blocks)
        if isinstance(block, doc.Views):
            yield from _inside(block.tables)


def _links(advice: doc.Advice, anchors: dict[str, str]) -> list[tuple[str, str]]:
    """(anchor, words) of the rows behind a finding; the first row of its table if none is in the page."""
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


@cache
def asset(*names: str) -> str:
    """Files of `assets/`, one after the other."""
    folder = files("laptime.reports").joinpath("assets")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


@cache
def template(source: str) -> Template:
    """A template that escapes all it is given and fails at a name that it was not given.

    To compile one takes ten times as long as to fill it in: who writes many pages compiles it once."""
    jinja = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    jinja.filters.update(plain=words.plain, count=count, capital=capital, px=px)
    return jinja.from_string(source)


def capital(text: str) -> str:
    """The text with a capital first letter, unless it begins with a name from a program."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def policy(style: str, script: str) -> str:
    """Nothing from anywhere, and only the style and the script of this page."""
    return (
        f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def inline(data: Any) -> Markup:
    """JSON that cannot end its script element, without folders of this machine."""
    text = json.dumps(_without_paths(data), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 (escaped above)


def _without_paths(data: Any) -> Any:
    if isinstance(data, str):
        return words.without_paths(data)
    if isinstance(data, dict):
        return {words.without_paths(str(name)): _without_paths(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_paths(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data  # JSON has no NaN


def pack(data: Any) -> str:
    """Deflated JSON in base64: 12,000 ranges in about 150 KB; nothing in it can be markup."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()
