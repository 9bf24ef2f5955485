"""history and import from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.store import files

Laptime = Callable[..., Any]


@pytest.fixture
def two_levels() -> None:
    for number in range(1, 25):
        case = runs.case(runs.timings(0.020 if number <= 12 else 0.024, n=30, spread=0.004, seed=number))
        files.save(
            runs.run(case, id=f"202608{number:02d}-000000-000-a", started=f"2026-08-{number:02d}T00:00:00Z")
        )


@pytest.mark.usefixtures("two_levels")
def test_history_tells_the_change(laptime: Laptime) -> None:
    ended = laptime("history")
    assert ended.code == 0
    assert "worse 1.20x" in ended.out
    assert "20260813-000000-000-a on" in ended.out


@pytest.mark.usefixtures("two_levels")
def test_history_writes_what_its_suffix_says(laptime: Laptime) -> None:
    ended = laptime("history", "--by", "commit", "-o", "h.html", "-o", "h.md", "-o", "h.json", "-o", "-")
    assert ended.code == 0
    assert Path("h.html").read_text().startswith("<!doctype html>")
    assert Path("h.md").read_text().startswith("### history")
    assert "0123456789" in Path("h.md").read_text()
    document = json.loads(laptime("history", "--json").out)
    assert document["schema"] == "laptime.history/1"
    assert json.loads(Path("h.json").read_text()) == document
    (own,) = document["histories"]
    assert (len(own["points"]), own["steps"][0]["at"], own["steps"][0]["word"]) == (24, 12, "worse")


@pytest.mark.usefixtures("two_levels")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "no stored run matches"),
        (["--metric", "latency/isolated/medain"], "latency/isolated/median"),
        (["-o", "h.png"], "there is no report format for .png"),
        (["-o", "none/h.html"], "cannot be written"),
        (["--by", "moon"], "--by"),
    ],
)
def test_history_of_what_there_is_not_is_explained(laptime: Laptime, words: list[str], said: str) -> None:
    ended = laptime("history", *words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_history_does_not_obey_what_a_run_is_called(laptime: Laptime) -> None:
    case = structs.replace(runs.trusted().cases[0], key="\x1b[2Jevil\nkey")
    files.save(structs.replace(runs.trusted(), cases=[case]))
    out = laptime("history", "-o", "h.md").out
    assert "\x1b" not in out
    assert "\x1b" not in Path("h.md").read_text()


def benchmarked(median: float = 0.5) -> Path:
    """A file of pytest-benchmark's."""
    path = Path("results.json")
    stats = {"median": median, "rounds": 5, "iterations": 1, "data": [median] * 5}
    document = {
        "machine_info": {},
        "commit_info": {"id": "abc"},
        "benchmarks": [{"name": "test_x", "fullname": "t.py::test_x", "stats": stats}],
        "datetime": "2026-08-01T14:25:01",
        "version": "5.1.0",
    }
    path.write_text(json.dumps(document))
    return path


def test_imported_runs_are_listed_shown_and_in_histories(laptime: Laptime) -> None:
    ended = laptime("import", str(benchmarked()), "--name", "old")
    assert ended.code == 0
    assert "20260801-142501" in ended.out
    assert "noisy" in laptime("list").out
    assert "500" in laptime("show", "old").out
    assert "t.py::test_x" in laptime("history").out


def test_a_second_import_adds_nothing_and_says_so(laptime: Laptime) -> None:
    path = str(benchmarked())
    laptime("import", path)
    ended = laptime("import", path)
    assert (ended.code, ended.out) == (0, "")
    assert "already stored" in ended.err
    assert len(files.list_files()) == 1


def test_one_bad_file_does_not_keep_the_others_out(laptime: Laptime) -> None:
    Path("bad.json").write_text("{")
    ended = laptime("import", "bad.json", str(benchmarked()), "none.json")
    assert ended.code == 2
    assert "JSON" in ended.err
    assert len(files.list_files()) == 1


def test_a_format_that_is_not_known_is_told(laptime: Laptime) -> None:
    ended = laptime("import", str(benchmarked()), "--format", "pytest-benchmrk")
    assert ended.code == 2
    assert "'pytest_benchmark'?" in ended.err


def test_runs_are_exported_by_show(laptime: Laptime) -> None:
    files.save(runs.trusted())
    assert json.loads(laptime("show", "--format", "asv").out)["version"] == 2
    assert json.loads(laptime("show", "--format", "pytest-benchmark").out)["benchmarks"]
    assert laptime("show", "-o", "run.asv", "-o", "run.pytest-benchmark", "-o", "run.xml").code == 0
