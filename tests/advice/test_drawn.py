"""Planted causes come first in traces that no threshold was set with, and idle edits change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from advice import scoring
from advice.made import drawn, edited
from laptime import rules
from laptime.verbs.trace import analyse


def said(path: Path) -> list[str]:
    return [scoring.kind(finding) for finding in rules.diagnose(analyse([path]))]


@pytest.mark.parametrize("cause", drawn.CAUSES)
def test_the_planted_cause_comes_first_and_nothing_false_is_said(cause: str, tmp_path: Path) -> None:
    path = tmp_path / "rank0.pt.trace.json.gz"
    drawn.draw(cause, 5).write(path)
    kinds = [kind for kind in said(path) if kind not in scoring.NOTES]
    _, first, true = drawn.CAUSES[cause]
    assert set(kinds) <= {*first, *true, *drawn.EVERYWHERE}
    assert kinds[0] in first + true if first else True
    assert set(kinds) & set(first) or not first


@pytest.mark.parametrize("name", edited.EDITS)
def test_an_edited_trace_is_told_by_what_was_edited(name: str, tmp_path: Path) -> None:
    path, file = tmp_path / "rank0.pt.trace.json.gz", "h100_bert_small.json.gz"
    change, first = edited.EDITS[name]
    document = edited.read(file)
    if first is None:
        edited.write(document, path)
        before = said(path)
        change(document)
        edited.write(document, path)
        assert said(path) == before
        return
    change(document)
    edited.write(document, path)
    assert said(path)[0] in first
