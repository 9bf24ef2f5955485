"""The report as one page: complete, offline, readable without JavaScript, safe with hostile names."""

from __future__ import annotations

from laptime.records.run import Run
from laptime.reports import page
from laptime.reports.document import Document
from laptime.reports.documents import document

NAME = "html"
SUFFIXES: tuple[str, ...] = (".html", ".htm")


def render(run: Run) -> str:
    """The whole page."""
    return render_document(document(run))


def render_document(document: Document) -> str:
    """Any document as a page."""
    return page.render(document)
