"""The list of runs on narrow terminals, and as a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import pages, runs
from laptime.apps.cli.commands import list as index_page
from laptime.reports.document import Table
from laptime.store import files, index

Laptime = Callable[..., Any]
HOSTILE = "</script><script>alert(1)</script>"


def stored(*latencies: float) -> None:
    """Runs of one program, a day apart."""
    for day, times in enumerate(latencies, 1):
        run = structs.replace(
            runs.trusted(), id=f"2026080{day}-000000-000-aaa11{day}", started=f"2026-08-0{day}T00:00:00Z"
        )
        (case,) = run.cases
        series = [
            structs.replace(each, samples=[value * times for value in each.samples])
            if each.metric.tag == "latency"
            else each
            for each in case.series
        ]
        files.save(structs.replace(run, cases=[structs.replace(case, series=series)]))


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_a_list_fits_a_narrow_terminal(
    laptime: Laptime, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    stored(1.0, 2.0)
    files.save(structs.replace(runs.interrupted(), id="20260809-000000-001-abc123", name="a name of mine"))
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    lines = laptime("list").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[1].startswith("20260809-000000-001-abc123")
    assert ("when" in lines[0]) == (columns >= 100)


def test_a_page_has_all_runs_whatever_the_limit(laptime: Laptime) -> None:
    stored(1.0, 2.0, 1.0)
    ended = laptime("list", "-n", "1", "-o", "runs.html")
    assert "2 older" in ended.err
    page = Path("runs.html").read_text(encoding="utf-8")
    assert all(f"2026080{day}-000000-000-aaa11{day}" in page for day in (1, 2, 3))
    assert "▁█▁" in page, "the newest run shows how the number moved"
    assert "http://" not in page
    assert "https://" not in page


def test_a_line_of_blocks_joins_runs_of_one_thing_only(laptime: Laptime) -> None:
    stored(1.0)
    files.save(structs.replace(pages.load_tokens(), id="20260802-000000-000-bbb222"))
    files.save(structs.replace(runs.batches(), id="20260803-000000-000-ccc333"))
    lines = [*index.listing()[0]]
    (table,) = index_page.document(lines).sections[0].blocks
    assert isinstance(table, Table)
    at = [column.title for column in table.columns].index("history")
    assert [row.cells[at] for row in table.rows] == ["▄▅", "", ""], (
        "the first case of the newest is that of the oldest"
    )


def test_a_page_of_runs_does_not_obey_what_a_run_is_called(laptime: Laptime) -> None:
    files.save(structs.replace(runs.trusted(), name=HOSTILE))
    laptime("list", "-o", "runs.html")
    assert HOSTILE not in Path("runs.html").read_text(encoding="utf-8")


def test_a_page_of_no_runs_says_so(laptime: Laptime) -> None:
    laptime("list", "-o", "runs.html")
    assert "None is" in Path("runs.html").read_text(encoding="utf-8")


def test_other_formats_have_the_same(laptime: Laptime) -> None:
    stored(1.0, 2.0)
    laptime("list", "-o", "runs.json", "-o", "runs.csv")
    document = json.loads(Path("runs.json").read_text(encoding="utf-8"))
    assert [run["id"][:8] for run in document["runs"]] == ["20260802", "20260801"]
    assert "20260801-000000-000-aaa111" in Path("runs.csv").read_text(encoding="utf-8")
    assert laptime("list", "-o", "runs.xml").code == 2
