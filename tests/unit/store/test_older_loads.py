"""Load that an older version stored, finished or in its journal, is read as rows, and kept as such."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from fixtures import runs
from fixtures.older_load import as_series
from fixtures.virtual_load import exponential, level
from laptime.analysis.load import level_stats
from laptime.records.case import Case
from laptime.records.event import CaseAdded, CaseChanged, Measured, RunStarted
from laptime.records.run import SCHEMA, Run
from laptime.store import files
from laptime.store.encoding import encode

ID = "20260801-142501-337-9f3a1c"


def stored() -> tuple[Case, Run]:
    """A level as it is, and the run of an older version that held it."""
    case = level(25.0, 20.0, exponential(0.02, 5), 7, slo="latency=100ms@p90")
    return case, structs.replace(runs.run(as_series(case)), schema="laptime.run/1", verb="load", id=ID)


def median(case: Case) -> float:
    stats = level_stats(case)
    assert stats is not None
    value = stats.latency["median"].value
    assert value is not None
    return value


def test_a_finished_run_of_an_older_version_has_rows(tmp_path: Path) -> None:
    case, run = stored()
    path = tmp_path / f"{ID}.json"
    path.write_bytes(encode(run))
    assert b'"requests"' not in path.read_bytes()
    read = files.read(path)
    (found,) = read.cases
    assert read.schema == SCHEMA
    assert case.requests is not None
    assert found.requests is not None
    assert sorted(found.requests.due) == pytest.approx(sorted(case.requests.due), abs=1e-6)
    assert median(found) == pytest.approx(median(case), abs=1e-6)
    assert found.details.load == case.details.load


def test_rows_of_an_older_version_are_kept_as_rows(tmp_path: Path) -> None:
    _, run = stored()
    path = tmp_path / f"{ID}.json"
    path.write_bytes(encode(run))
    read = files.read(path)
    again = files.read(files.save(read, tmp_path / "store"))
    assert again.cases == read.cases


def test_the_journal_of_an_older_version_that_was_interrupted_has_rows(tmp_path: Path) -> None:
    case, run = stored()
    old = run.cases[0]
    empty = structs.replace(old, series=[], checks=[])
    lines = [RunStarted(structs.replace(run, cases=[], status="running")), CaseAdded(empty)]
    lines += [Measured(old.key, series) for series in old.series]
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(b"".join(encode(event) + b"\n" for event in lines))
    (found,) = files.read(path).cases
    assert found.status == "interrupted"
    assert median(found) == pytest.approx(median(case), abs=1e-6)
    with path.open("ab") as file:
        file.write(encode(CaseChanged(old)) + b"\n")
    (whole,) = files.read(path).cases
    assert whole.requests is not None
    assert len(whole.requests) == len(old.find("latency", "paced").samples)
