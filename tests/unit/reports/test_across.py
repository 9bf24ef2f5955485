from __future__ import annotations

from msgspec import structs

from fixtures import runs
from laptime.analysis.summary import summarize
from laptime.kit.registry import load
from laptime.records.check import Check
from laptime.records.finding import Finding
from laptime.records.run import Run
from laptime.reports.document import Table
from laptime.reports.documents.bench.table import table


def across() -> Run:
    """Two frameworks; one was exported, and agrees."""
    agrees = Check(name="agreement", outcome="ok", sentence="its outputs agree")
    start = runs.single("time/cold_start", "s", 2.0)
    first = runs.case(runs.timings(0.02), start)
    second = runs.case(runs.timings(0.01), start, axes={"backend": "onnxruntime"}, checks=[agrees])
    told = runs.run(
        first,
        second,
        comparisons=[runs.against(first, second, word="faster", speedup=2.0, ci95=(1.9, 2.1))],
    )
    return structs.replace(told, findings=[Finding(kind="model/same", sentence="it is the model")])


def cases(run: Run) -> Table:
    return table(run, [summarize(case) for case in run.cases])


def test_what_the_models_have_in_common_is_said_before_their_speed() -> None:
    text = load("reports", "text").render(across())
    assert (
        text.index("it is the model") < text.index("its outputs agree") < text.index("against torch: faster")
    )
    assert text.count("it is the model") == 1


def test_a_table_across_frameworks_has_words_and_cold_starts() -> None:
    titles = [column.title for column in cases(across()).columns]
    assert {"backend", "compared", "cold start"} <= {*titles}
    at = titles.index("compared")
    assert [row.cells[at].text for row in cases(across()).rows] == ["baseline", "faster 2.00x"]


def test_a_table_of_one_framework_stays_as_it_was() -> None:
    titles = [column.title for column in cases(runs.trusted()).columns]
    assert not {"compared", "cold start"} & {*titles}


def test_a_narrow_page_leaves_out_what_it_can_do_without() -> None:
    wide, narrow = (load("reports", "text").render(across(), width=width) for width in (200, 76))
    assert "throughput" in wide
    assert "throughput" not in narrow
    assert "cold start" in narrow
