"""A count of work with a hole in it is a lower bound, wherever it is printed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.analysis.budgets import judge
from laptime.analysis.summary import summarize
from laptime.edges.formats import perfzero
from laptime.records.run import Run
from laptime.reports.formats import csv, html, markdown, text
from laptime.reports.formats import json as as_json

RECEIPT: dict[str, Any] = {
    "counted": {"aten.convolution": 7.0e9},
    "uncounted": {"mylib.scan": 3},
    "doubtful": ["mylib.scan"],
    "complete": False,
}


def incomplete() -> Run:
    run = runs.trusted()
    (case,) = run.cases
    return structs.replace(
        run, cases=[structs.replace(case, details=structs.replace(case.details, count=RECEIPT))]
    )


@pytest.mark.parametrize("render", [text.render, markdown.render, html.render, csv.render])
def test_every_report_says_at_least_and_no_share_of_peak(render: Any) -> None:
    shown, whole = render(incomplete()), render(runs.trusted())
    for report, is_bound in ((shown, True), (whole, False)):
        assert ("of the measured peak" in report or "share of peak" in report) is not is_bound
        assert ("at least" in report) is is_bound
    if render is not csv.render:
        assert "mylib.scan" in shown
        assert "at least 1" in shown or "at least 3" in shown


def test_achieved_flops_are_a_bound_too() -> None:
    stats = summarize(incomplete().cases[0])
    assert stats["flops"].at_least
    assert stats["flops/achieved"].at_least
    assert stats["flops/achieved"].text.startswith("at least ")
    assert "flops/share_of_peak" not in stats
    assert not stats["params/all"].at_least
    assert not any(stat.at_least for stat in summarize(runs.trusted().cases[0]).values())


def test_documents_for_machines_have_a_flag() -> None:
    (case,) = json.loads(as_json.render(incomplete()))["cases"]
    assert case["metrics"]["flops"]["at_least"] is True
    assert "mylib.scan" in case["metrics"]["flops"]["note"]
    assert "at_least" not in case["metrics"]["params/all"]
    told = json.loads(perfzero.render(incomplete()))
    (entry,) = told if isinstance(told, list) else [told]
    assert entry["laptime"]["metrics"]["flops"]["at_least"] is True


def test_a_budget_cannot_be_kept_by_work_that_was_not_counted() -> None:
    case = incomplete().cases[0]
    stat = summarize(case)["flops"]
    assert judge(case, stat, "max", 1e12).word == "undecided"
    assert "mylib.scan" in judge(case, stat, "max", 1e12).sentence
    assert judge(case, stat, "max", 1e6).word == "broken"
    assert judge(case, stat, "min", 1e6).word == "kept"
    assert judge(case, stat, "min", 1e12).word == "undecided"
