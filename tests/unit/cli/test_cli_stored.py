"""show, list, compare on stored runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.apps.cli.commands import compare
from laptime.apps.cli.output import table
from laptime.records.event import RunStarted
from laptime.records.plan import BenchRequest
from laptime.records.run import Run, Subject
from laptime.store import files, lookup
from laptime.store.journal import Journal
from laptime.targets import parse

Laptime = Callable[..., Any]
Fake = Callable[[Run], Any]

OLD, NEW = "20260801-000000-000-aaa111", "20260802-000000-000-bbb222"


@pytest.fixture
def two() -> tuple[Run, Run]:
    """Two stored runs of one program, the older with a name."""
    old = structs.replace(runs.trusted(), id=OLD, name="baseline", started="2026-08-01T00:00:00Z")
    new = structs.replace(runs.noisy(), id=NEW, started="2026-08-02T00:00:00Z")
    files.save(old)
    files.save(new)
    return old, new


@pytest.mark.usefixtures("two")
def test_show_renders_the_last_run_again(laptime: Laptime) -> None:
    assert laptime("show").out == laptime("show", "last").out
    assert laptime("show").out.count("noisy") >= 1
    assert NEW in laptime("show").out
    assert OLD in laptime("show", "baseline").out


@pytest.mark.usefixtures("two")
def test_show_writes_any_report(laptime: Laptime) -> None:
    assert json.loads(laptime("show", "last~1", "--json").out)["id"] == OLD
    assert json.loads(laptime("show", OLD, "--format", "json").out)["id"] == OLD
    assert laptime("show", "--format", "markdown").out.startswith("#")
    ended = laptime("show", "aaa111", "-o", "r.md")
    assert Path("r.md").exists()
    assert OLD in ended.out


@pytest.mark.usefixtures("two")
def test_show_of_what_there_is_not_suggests(laptime: Laptime) -> None:
    ended = laptime("show", "baselin")
    assert ended.code == 2
    assert "'baseline'?" in ended.err
    ended = laptime("show", "--format", "htlm")
    assert ended.code == 2
    assert "'htlm'" in ended.err


def test_show_of_a_damaged_file_names_the_place(laptime: Laptime, two: tuple[Run, Run]) -> None:
    path = lookup.find("last")
    path.write_bytes(path.read_bytes().replace(b'"vcpus":4', b'"vcpus":"many"'))
    ended = laptime("show", "last")
    assert ended.code == 2
    assert "$.environment.vcpus" in ended.err
    assert len(ended.err.splitlines()) == 3


def test_list_shows_newest_first_with_verdict_and_headline(laptime: Laptime, two: tuple[Run, Run]) -> None:
    lines = laptime("list").out.splitlines()
    assert lines[0].split()[:3] == ["run", "when", "verdict"]
    assert lines[1].startswith(NEW)
    assert "noisy" in lines[1]
    assert lines[2].startswith(OLD)
    assert "trusted" in lines[2]
    assert re.search(r"26\.\d+ ms", lines[2])
    assert lines[2].endswith("baseline")


def test_list_as_json_has_the_same(laptime: Laptime, two: tuple[Run, Run]) -> None:
    document = json.loads(laptime("list", "--json").out)
    assert document["schema"] == "laptime.list/1"
    assert [run["id"] for run in document["runs"]] == [NEW, OLD]
    old = document["runs"][1]
    assert (old["name"], old["verdict"], old["status"]) == ("baseline", "trusted", "complete")
    assert old["headline"]["unit"] == "s"
    assert old["headline"]["regime"] == "isolated"
    assert old["headline"]["ci95"][0] <= old["headline"]["value"] <= old["headline"]["ci95"][1]


def test_list_of_nothing_is_no_error(laptime: Laptime) -> None:
    ended = laptime("list")
    assert (ended.code, ended.out) == (0, "")
    assert "laptime bench" in ended.err
    assert json.loads(laptime("list", "--json").out)["runs"] == []


def test_list_marks_interrupted_running_damaged_and_failed(laptime: Laptime) -> None:
    files.save(structs.replace(runs.interrupted(), id="20260801-000000-001-a"))
    files.save(structs.replace(runs.failed(), id="20260801-000000-002-b"))
    damaged = files.save(structs.replace(runs.trusted(), id="20260801-000000-003-c"))
    damaged.write_bytes(b"{")
    with Journal() as journal:
        journal(RunStarted(structs.replace(runs.trusted(), id="20260801-000000-004-d", status="running")))
        lines = laptime("list").out.splitlines()
        states = [run["status"] for run in json.loads(laptime("list", "--json").out)["runs"]]
    assert "running" in lines[1]
    assert "damaged" in lines[2]
    assert "malformed" in lines[2] or "truncated" in lines[2]
    assert "failed" in lines[3]
    assert "interrupted" in lines[4]
    assert states == ["running", "damaged", "failed", "interrupted"]


def test_list_stops_at_its_limit_and_says_so(laptime: Laptime) -> None:
    for number in range(3):
        files.save(structs.replace(runs.failed(), id=f"20260801-000000-00{number}-a"))
    ended = laptime("list", "-n", "2")
    assert len(ended.out.splitlines()) == 3
    assert "1 older" in ended.err
    assert len(laptime("list", "-n", "2", "--all").out.splitlines()) == 4


def test_list_does_not_obey_what_a_run_is_called(laptime: Laptime) -> None:
    files.save(structs.replace(runs.trusted(), name="\x1b[2Jowned\nsecond"))
    out = laptime("list").out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2


def test_a_json_report_is_read_as_the_run_that_it_carries(laptime: Laptime, two: tuple[Run, Run]) -> None:
    laptime("show", "baseline", "-o", "run.json")
    report = json.loads(Path("run.json").read_text())
    assert (report["schema"], report["run"]["id"]) == ("laptime.report/1", OLD)
    assert report["run"]["environment"]["host"] == ""
    assert laptime("show", "run.json").out == laptime("show", "baseline").out
    assert laptime("compare", "run.json", "last", "--stored").code in (0, 3)
    assert "already stored" in laptime("import", "run.json").err
    for file in files.list_files():
        file.unlink()
    assert OLD in laptime("import", "run.json").out
    (again,) = [files.read(file) for file in files.list_files()]
    assert (again.cases, again.name) == (two[0].cases, "baseline")
    assert laptime("check", "last", "--against-rev", "HEAD").code == 2  # its targets are not run unasked
    Path("run.json").write_text("\ufeff" + Path("run.json").read_text())
    assert laptime("show", "run.json").code == laptime("show", "last").code
    Path("bare.json").write_text(laptime("show", "last", "--json").out)
    ended = laptime("show", "bare.json")
    assert (ended.code, "-o FILE.json" in ended.err) == (2, True)


def test_what_files_from_elsewhere_name_is_not_run_unasked(
    laptime: Laptime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compare` measures again what does not tell; of a stranger's files that would call what they name."""
    measured: list[list[str]] = []

    def measure_now(request: BenchRequest, delivery: object) -> int:
        measured.append(request.targets)
        return 0

    monkeypatch.setattr(compare, "measure_now", measure_now)
    paths: list[Path] = []
    for target in ("tempfile:mkdtemp", "tempfile:mkstemp"):
        recipe = parse(target)
        run = structs.replace(
            runs.noisy(), id=f"20260801-00000{len(paths)}-000-a",
            subjects=[Subject(target=target, source=recipe.source, sha256=recipe.sha256)],
        )  # fmt: skip
        paths.append(files.save(run))
    laptime("compare", *map(str, paths))
    assert len(measured) == 1
    elsewhere = [str(path.replace(tmp_path / path.name)) for path in paths]
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder not in ("", str(tmp_path))])
    ended = laptime("compare", *elsewhere)
    assert str(tmp_path) not in sys.path  # a stranger's folder may hold a psutil.py, too
    assert ended.code == 3
    assert "--again" in ended.err
    assert len(measured) == 1
    laptime("compare", *elsewhere, "--again")
    assert len(measured) == 2
    ended = laptime("check", elsewhere[0], "--against-rev", "HEAD")
    assert (ended.code, "--again" in ended.err) == (2, True)


def test_compare_of_a_run_with_itself_is_refused(laptime: Laptime, two: tuple[Run, Run]) -> None:
    ended = laptime("compare", "baseline", "baseline", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert "with itself" in ended.err


def test_compare_tells_slower_in_words_with_an_interval(laptime: Laptime, two: tuple[Run, Run]) -> None:
    old, _ = two
    case = structs.replace(old.cases[0], series=[runs.timings(0.06, n=160, spread=0.006, seed=9)])
    files.save(structs.replace(old, id="20260803-000000-000-ccc333", name="", cases=[case]))
    ended = laptime("compare", "baseline", "last")
    assert ended.code == 0
    assert ended.out.startswith("slower")
    assert OLD in ended.out.splitlines()[1]
    assert laptime("compare", "last", "baseline").out.count("faster") >= 1


def test_compare_under_different_conditions_is_refused_unasked(
    laptime: Laptime, two: tuple[Run, Run]
) -> None:
    _, new = two
    libraries = {**new.environment.libraries, "torch": "9.9.9"}
    other = structs.replace(
        new,
        id="20260803-000000-000-ccc333",
        environment=structs.replace(new.environment, libraries=libraries),
    )
    files.save(other)
    ended = laptime("compare", "baseline", "last")
    assert ended.code == 2
    assert ended.out == ""
    assert "2.9.0 and 9.9.9" in ended.err
    assert "--force" in ended.err
    assert laptime("compare", "baseline", "last", "--force").code in (0, 3)


def test_compare_of_what_is_neither_run_nor_target_suggests(laptime: Laptime, two: tuple[Run, Run]) -> None:
    ended = laptime("compare", "baseline", "lats")
    assert ended.code == 2
    assert "'lats'" in ended.err


def test_compare_of_two_targets_measures_them_side_by_side(laptime: Laptime, fake_bench: Fake) -> None:
    fake = fake_bench(runs.compared())
    ended = laptime("compare", "a:b", "c:d", "--batch", "1,8", "-o", "r.md")
    assert fake.requests[0].targets == ["a:b", "c:d"]
    assert fake.requests[0].batch == [1, 8]
    assert "faster" in ended.out
    assert Path("r.md").exists()
    words = {each.word for each in runs.compared().comparisons}
    assert ended.code == (3 if "unclear" in words else 0)


def test_compare_of_a_run_and_a_target_measures_as_the_run_was(
    laptime: Laptime, fake_bench: Fake, two: tuple[Run, Run]
) -> None:
    old, _ = two
    axes = {"batch": 4, "dtype": "bfloat16", "device": "cpu", "threads": 2}
    files.save(structs.replace(old, id="20260803-000000-000-ccc333", name="wide", cases=[
        structs.replace(old.cases[0], axes=axes)
    ]))  # fmt: skip
    fake = fake_bench(structs.replace(old, id="20260804-000000-000-ddd444", cases=[
        structs.replace(old.cases[0], axes=axes)
    ]))  # fmt: skip
    ended = laptime("compare", "wide", "new:model", "--threads", "1")
    request = fake.requests[0]
    assert (request.targets, request.batch, request.dtype) == (["new:model"], [4], ["bfloat16"])
    assert request.threads == [1]  # the line goes before the run
    assert "baseline    20260803" in ended.out
    assert "candidate   20260804" in ended.out
    assert "baseline    20260805" not in laptime("compare", "new:model", "wide").out


def test_a_comparison_of_stored_runs_is_written_as_any_report(laptime: Laptime, two: tuple[Run, Run]) -> None:
    files_ = ("page.html", "comment.md", "tests.xml", "data.json")
    ended = laptime("compare", "baseline", "last", *(part for name in files_ for part in ("-o", name)))
    word = ended.out.split()[0]
    page, comment, tests, data = (Path(name).read_text() for name in files_)
    assert page.index(word) < page.index("The two runs")
    assert word in comment.splitlines()[2]
    assert "<testcase" in tests
    assert json.loads(data)["schema"] == "laptime.compare/1"
    assert laptime("compare", "baseline", "last", "-o", "r.perfzero").code == 2


def _store_two_programs(source: str = "laptime") -> None:
    """Two programs on one virtual machine, 20 % apart, each measured once."""
    for place, (target, level) in enumerate((("null:spin=2ms", 0.002), ("null:spin=3ms", 0.0024))):
        case = runs.case(runs.timings(level, seed=place), target=target)
        subject = Subject(target=target, source=source)
        files.save(runs.run(case, id=f"2026080{place}-000000-000-aaa111", subjects=[subject]))


def test_what_two_stored_runs_do_not_tell_is_measured_again(laptime: Laptime, fake_bench: Fake) -> None:
    fake = fake_bench(runs.compared())
    _store_two_programs()
    ended = laptime("compare", "last~1", "last", "-q")
    (request,) = fake.requests
    assert request.targets == ["null:spin=2ms", "null:spin=3ms"]
    assert request.batch == [1]
    assert "interleaved" not in ended.err
    assert laptime("compare", "last~2", "last~1", "--stored").code == 3
    assert len(fake.requests) == 1


def test_a_program_that_has_changed_is_not_measured_again(laptime: Laptime, fake_bench: Fake) -> None:
    fake = fake_bench(runs.compared())
    _store_two_programs(source="another one")
    assert laptime("compare", "last~1", "last").code == 3
    assert not fake.requests


@pytest.mark.parametrize("columns", [80, 120])
def test_the_list_keeps_to_the_terminals_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    name = "torchvision:efficientnet_v2_l/batch=1/dtype=bfloat16/device=cuda:0 and 12 more cases"
    rows = [("20261123-022815-869-5b75f4", "2026-11-23 02:28", "noisy", "29 us", name, "a run of mine")]
    titles = ("run", "when", "verdict", "median", "of", "name")
    text = table(titles, rows, right=("median",), whole=("when", "verdict"))
    assert all(len(line) <= columns for line in text.splitlines())
    assert "20261123-022815-869-5b75f4" in text
    assert "29 us" in text
    monkeypatch.delenv("COLUMNS")
    assert name in table(("run", "of"), [("1", name)]), "a file gets whole lines"
