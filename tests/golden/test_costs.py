"""Costs in text and Markdown, against files that a person has read; without `--where`, whose table grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.pages import batches, cores, tuned
from laptime.reports.documents.cost import document
from laptime.reports.formats import markdown, text


@pytest.mark.parametrize("made", [batches, cores, tuned])
def test_text_and_markdown_of_a_cost_are_as_reviewed(
    made: Any, golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path))
    shown = document(made())
    golden(f"cost-{made.__name__}.txt", text.render_document(shown))
    golden(f"cost-{made.__name__}.md", markdown.render_document(shown))


def test_text_of_a_cost_is_as_reviewed_on_a_narrow_terminal(
    golden: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    golden("cost-cores-72.txt", text.render_document(document(cores()), width=72))
