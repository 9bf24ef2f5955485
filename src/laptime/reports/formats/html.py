"""The report as one page: complete, offline, readable without JavaScript, safe with hostile names."""

from laptime.records.run import Run
from laptime.reports.documents import document
from laptime.reports.page.render import render as render_document

NAME = "html"
SUFFIXES: tuple[str, ...] = (".html", ".htm")


def render(run: Run) -> str:
    """The whole page."""
    return render_document(document(run))
