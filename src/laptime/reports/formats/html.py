"""The report as one page: complete, offline, readable without JavaScript, safe with hostile names."""

from __future__ import annotations

from laptime.records.run import Run
from laptime.reports import page
from laptime.reports.documents import document

NAME = "html"
SUFFIXES: tuple[str, ...] = (".html", ".htm")


def render(run: Run) -> str:
    """The whole page."""
    return page.render(document(run))
