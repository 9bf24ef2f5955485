"""The report for machines: one JSON document with stable keys a kind of run, whose schemas are published.

Keys are added, never renamed or retyped. NaN and infinity are written as null.
"""

from __future__ import annotations

from laptime.records.run import Run
from laptime.reports.document import Document
from laptime.reports.documents import document
from laptime.reports.json_parts import plain, written

NAME = "json"
SUFFIXES: tuple[str, ...] = (".json",)


def render(run: Run) -> str:
    """The document of the run's kind, a key a line."""
    return render_document(document(run))


def render_document(document: Document) -> str:
    """Any document for machines."""
    return written(plain(document.data())) + "\n"
