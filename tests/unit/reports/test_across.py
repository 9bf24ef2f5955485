from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.analysis.summary import summarize
from laptime.kit.registry import load
from laptime.records.check import Check, Finding
from laptime.records.run import Run
from laptime.reports import text_layout
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
    assert text.index("the model") < text.index("outputs agree") < text.index("torch: faster")
    assert text.count("the model") == 1


def test_a_table_across_frameworks_has_words_and_cold_starts() -> None:
    titles = [column.title for column in cases(across()).columns]
    assert {"backend", "compared", "cold start"} <= {*titles}
    at = titles.index("compared")
    compared: list[Any] = [row.cells[at] for row in cases(across()).rows]
    assert [cell.text for cell in compared] == ["baseline", "faster 2.00x"]


def test_a_table_of_one_framework_stays_as_it_was() -> None:
    titles = [column.title for column in cases(runs.trusted()).columns]
    assert not {"compared", "cold start"} & {*titles}


def test_a_narrow_page_leaves_out_what_it_can_do_without() -> None:
    wide, narrow = (load("reports", "text").render(across(), width=width) for width in (200, 76))
    assert "throughput" in wide
    assert "throughput" not in narrow
    assert "cold start" in narrow


def many() -> Run:
    """Four models in three frameworks at two batch sizes and two precisions."""
    start, memory = runs.single("time/cold_start", "s", 2.0), runs.single("memory/host/peak", "B", 2.0**30)
    first = runs.single("time/first_call", "s", 0.2)
    return runs.run(
        *(
            runs.case(
                runs.timings(0.02, n=400),
                start,
                memory,
                first,
                target=f"torchvision:a_model_with_a_long_name_{name}",
                axes={"batch": batch, "dtype": dtype, "backend": backend},
            )
            for name in "abcd"
            for batch in (1, 8)
            for dtype in ("float32", "bfloat16")
            for backend in ("torch", "onnxruntime", "openvino")
        )
    )


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 139, 160])
def test_a_row_stays_a_row_on_a_narrow_terminal(width: int) -> None:
    drawn = [line.plain for line in text_layout.lines(cases(many()), width)]
    assert len(drawn) <= 48 + 6
    assert all(len(line) <= width for line in drawn)
    assert sum("20" in line and "ms" in line for line in drawn) == 48
    is_whole = any("first call" in line for line in drawn[:2])
    assert is_whole or any("wider terminal" in line for line in drawn)


def test_a_short_table_that_does_not_fit_is_told_cell_by_cell() -> None:
    drawn = [line.plain for line in text_layout.lines(cases(across()), 30)]
    assert any("cold start" in line for line in drawn)
    assert not any("wider terminal" in line for line in drawn)
