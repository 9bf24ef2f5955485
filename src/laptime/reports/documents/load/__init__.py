"""Load on an endpoint or a program as a document: the answer, a row a level, what its checks say."""

from __future__ import annotations

from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports import document as doc
from laptime.reports.documents import checks
from laptime.reports.documents.load import chart, data, headline, knee, levels, server, tokens


def document(run: Run) -> doc.Document:
    """Everything that a report says about a load test."""
    measured = levels.measured(run)
    return doc.Document(
        run=run,
        verb="load",
        title=headline.title(run),
        verdict=headline.verdict(run, measured),
        conditions=words.where(run),
        sections=[
            levels.section(run, measured),
            knee.section(run, measured),
            tokens.section(measured),
            server.section(measured),
            chart.section(run, measured),
            doc.Section(id="failures", title="Failures", headed=False, blocks=checks.failures(run)),
            levels.reasons(run, measured),
        ],
        cases=levels.junit_cases(run),
        data=lambda: data.report(run, measured),
        embedded=True,
        about="Latency counts from when a request was due. The same for machines: laptime load --json.",
    )
