"""Costs in text and Markdown, against files that a person has read; without `--where`, whose table grows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fixtures import tunings
from fixtures.costs import OCI, case, run
from laptime.records.cost import Cost
from laptime.reports.documents.cost import document
from laptime.reports.formats import markdown, text
from laptime.verbs.cost import CostRequest, cost

TODAY = date(2026, 11, 22)


def batches() -> Cost:
    """Four batch sizes on a flexible shape, with a bill at a rate and of a training."""
    cases = (case(0.025 * size**0.8, axes={"batch": size}, spread=0.03) for size in (1, 2, 4, 8))
    request = CostRequest(machines=[OCI], rate=70.0, samples=1.28e6, epochs=90, today=TODAY)
    return cost([run(*cases, name="resnet50")], request)


def cores() -> Cost:
    """Threads on 16 cores with 32 threads, at a promise."""
    rates = {1: 10.0, 2: 19.0, 4: 33.0, 8: 50.0, 16: 70.0, 32: 74.0}
    cases = (case(1 / rate, axes={"threads": n}, spread=0.02) for n, rate in rates.items())
    return cost([run(*cases)], CostRequest(machines=[OCI], slo="60ms@p99", today=TODAY))


def tuned() -> Cost:
    """A tuning session at the user's own price."""
    return cost([tunings.full()], CostRequest(usd_per_hour=4.0, samples=1.28e6, epochs=90, today=TODAY))


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
