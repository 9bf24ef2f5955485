"""Charts on a phone: they scroll where their text would become too small."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from laptime import reports

CSS = (Path(reports.__file__).parent / "assets" / "document.css").read_text()
SMALLEST, READABLE = 10.5, 7.5
"""Pixels of the smallest text as it is drawn, and of what can be read."""


@pytest.mark.parametrize(
    "module", ["cost.chart", "history.chart", "tuning.training", "bench.processes", "bench.sample_chart"]
)
def test_text_of_a_wide_chart_stays_readable(module: str) -> None:
    width = import_module(f"laptime.reports.documents.{module}")._WIDTH
    first = f"{width:g}"[0]
    rule = re.search(rf"viewBox\^='0 0 {first}'[^{{]*{{ min-width: (\d+)px", CSS)
    assert rule is not None
    assert SMALLEST * float(rule[1]) / width >= READABLE
