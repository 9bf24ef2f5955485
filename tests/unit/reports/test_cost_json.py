"""The cost for machines: every key always there, a schema made from the record."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import msgspec
import pytest

from fixtures.costs import OCI, case, run
from laptime.records.cost import Cost
from laptime.reports.documents import cost as report
from laptime.reports.formats import json as json_report
from laptime.verbs.cost.request import CostRequest
from laptime.verbs.cost.run import cost

SCHEMA = Path(__file__).parents[3] / "schemas" / "cost.schema.json"


@pytest.mark.parametrize("where", [False, True])
def test_documents_follow_the_schema(where: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    request = CostRequest(machines=[OCI], where=where, samples=1e6, rate=10.0, today=date(2026, 11, 22))
    made = cost([run(case(0.025, flops={"float32": 20e9}, spread=0.01))], request)
    document = json.loads(json_report.render_document(report.document(made)))
    assert msgspec.convert(document, Cost) == made
    assert list(document) == json.loads(SCHEMA.read_text())["$defs"]["Cost"]["required"]
    assert document["lines"][0]["training"]["usd"] > 0
    assert bool(document["elsewhere"]) is where
