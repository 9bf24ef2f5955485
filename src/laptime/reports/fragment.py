"""The few lines of a run that a notebook shows: escaped HTML without scripts, for light and dark pages."""

from laptime.kit.units import estimate
from laptime.reports import document as doc
from laptime.reports.page.render import asset, template
from laptime.reports.shown import alone, sections, title

ROWS = 12  # of a table; the reports have all
_COLOURS = {"trusted": "#1a7f4e", "noisy": "#a66300", "invalid": "#c0392b"}


def render(document: doc.Document) -> str:
    """Verdict, next step, failures and the first table of a document; its conditions in a quiet line."""
    blocks = (block for section in sections(document, "terminal") for block in section.blocks)
    tables = (block.tables[0] if isinstance(block, doc.Views) else block for block in blocks)
    table = next((block for block in tables if isinstance(block, doc.Table)), None)
    failures = [block for block in document.brief if isinstance(block, doc.Failure)]
    told = {"document": document, "table": table, "failures": failures, "most": ROWS}
    colour = _COLOURS.get(document.verdict.tone, "inherit")
    return template(asset("fragment.html")).render(**told, colour=colour, cell=_cell, title=title)


def _cell(column: doc.Column, cell: doc.Value | doc.Cell) -> str:
    text = alone(column.kind, cell)
    if not isinstance(cell, doc.Cell):
        return text
    return estimate(text, cell.interval) if cell.interval else f"{text} {cell.margin}".rstrip()
