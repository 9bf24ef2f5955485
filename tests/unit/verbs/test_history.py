"""Histories over stored runs: which belong together, what changed, how it is shown."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from msgspec import structs

from fixtures import runs
from laptime.kit.errors import UsageError
from laptime.records.comparison import History
from laptime.records.run import Run
from laptime.reports.documents import history as report
from laptime.reports.formats import markdown, text
from laptime.reports.page import render as page
from laptime.store import files
from laptime.verbs.history import history


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".laptime"


def keep(
    root: Path,
    number: int,
    level: float,
    *,
    commit: str = "",
    torch: str = "2.9.0",
    host: str = "",
    **changes: object,
) -> Run:
    """One stored run of the day with this number."""
    known = runs.environment()
    environment = structs.replace(
        known,
        libraries={**known.libraries, "torch": torch},
        git={"commit": commit or f"{number:040x}", "dirty": False},
        host=host or known.host,
    )
    case = runs.case(runs.timings(level, n=40, spread=0.004, seed=number), *runs.facts())
    run = runs.run(
        case,
        id=f"202608{number:02d}-000000-000-a",
        started=f"2026-08-{number:02d}T00:00:00Z",
        environment=environment,
        **changes,
    )
    files.save(run, root)
    return run


def stepped(root: Path) -> History:
    for number in range(1, 25):
        keep(root, number, 0.020 if number <= 14 else 0.023)
    (found,) = history(root=root)
    return found


def test_a_step_is_told_with_the_commits_around_it(root: Path) -> None:
    found = stepped(root)
    assert [point.run for point in found.points] == sorted(point.run for point in found.points)
    (step,) = found.steps
    assert (step.at, step.word) == (14, "worse")
    assert step.ratio == pytest.approx(1.15, rel=0.01)
    assert "20260815-000000-000-a" in step.sentence
    assert f"{14:040x}"[:10] in step.sentence


def test_what_is_better_depends_on_the_metric(root: Path) -> None:
    stepped(root)
    (found,) = history(metric="throughput/isolated", root=root)
    assert [step.word for step in found.steps] == ["worse"]
    assert found.steps[0].ratio < 1


def test_other_conditions_are_another_history_unless_asked(root: Path) -> None:
    for number in range(1, 25):
        keep(root, number, 0.020 if number <= 12 else 0.023, torch="2.9.0" if number <= 12 else "2.10.0")
    assert [len(each.points) for each in history(root=root)] == [12, 12]
    (forced,) = history(force=True, root=root)
    assert forced.conditions == ""
    (found,) = history(by="version", root=root)
    assert found.conditions
    assert "torch 2.9.0 to 2.10.0" in found.steps[0].sentence
    labels = [(label, len(points)) for label, points in report.groups(found, "version").items()]
    assert labels == [("torch 2.9.0", 12), ("torch 2.10.0", 12)]


def test_two_machines_of_one_cpu_are_two_histories_that_say_so(root: Path) -> None:
    for number in range(1, 25):
        keep(root, number, 0.020 if number % 2 else 0.036, host="ci-1" if number % 2 else "ci-2")
    found = history(root=root)
    assert [(each.machine, len(each.points), each.steps) for each in found] == [
        ("ci-1", 12, []),
        ("ci-2", 12, []),
    ]
    assert [each.differs for each in found] == [["machine ci-1"], ["machine ci-2"]]
    shown = text.render_document(report.document(found, by="run"), width=160)
    assert "differs in" in shown
    assert "machine ci-2" in shown
    (together,) = history(by="machine", root=root)
    assert [*report.groups(together, "machine")] == ["ci-1", "ci-2"]


def test_rows_of_other_versions_say_which(root: Path) -> None:
    for number in range(1, 5):
        keep(root, number, 0.02, torch="2.9.0" if number % 2 else "2.10.0")
    assert sorted(each.differs for each in history(root=root)) == [["torch 2.10.0"], ["torch 2.9.0"]]


def test_the_id_of_a_container_names_no_machine(root: Path) -> None:
    for number, host in enumerate(("3f2a9c0b1d4e", "a" * 64, "0123456789ab"), 1):
        keep(root, number, 0.02, host=host)
    (found,) = history(root=root)
    assert (found.machine, len(found.points)) == ("", 3)


def test_numbers_in_the_index_are_those_of_the_files(root: Path) -> None:
    for number in range(1, 4):
        keep(root, number, 0.02 + number / 1000)
    then = time.time_ns() - 60 * 10**9  # files of this moment are not indexed yet
    for file in files.list_files(root):
        os.utime(file, ns=(then, then))
    first, again = history(root=root), history(root=root)
    (root / "index.sqlite").unlink()
    assert first == again == history(root=root)
    next(file for file in files.list_files(root) if file.name.startswith("20260802")).unlink()
    keep(root, 2, 0.5)
    (changed,) = history(root=root)
    assert changed.points[1].value == pytest.approx(0.5, rel=0.01)


def test_a_history_of_thousands_of_runs_takes_a_moment_once_they_are_indexed(root: Path) -> None:
    run = keep(root, 1, 0.02)
    then = time.time_ns() - 60 * 10**9
    (stored,) = files.list_files(root)
    whole = stored.read_bytes()
    for number in range(1500):
        name = f"20260802-{number:06d}-000-a"
        copy = stored.with_name(stored.name.replace(run.id, name))
        copy.write_bytes(whole.replace(run.id.encode(), name.encode()))
        os.utime(copy, ns=(then, then))
    history(last=5000, root=root)
    began = time.process_time()
    (found,) = history(last=5000, root=root)
    assert len(found.points) == 1501
    assert time.process_time() - began < 1.0


def test_numbers_that_mean_nothing_are_left_out_and_counted(root: Path) -> None:
    keep(root, 1, 0.02)
    invalid = runs.invalid()
    bad = structs.replace(
        invalid.cases[0],
        key=runs.trusted().cases[0].key,
        target=runs.TARGET,
        axes=runs.trusted().cases[0].axes,
    )
    files.save(structs.replace(keep(root, 2, 0.02), id="20260803-000000-000-b", cases=[bad]), root)
    (found,) = history(root=root)
    assert (len(found.points), found.left_out) == (2, 1)


def test_targets_keys_and_names_choose(root: Path) -> None:
    keep(root, 1, 0.02, name="nightly")
    keep(root, 2, 0.02)
    key = runs.trusted().cases[0].key
    for pattern, number in (
        ("nightly", 1),
        (runs.TARGET, 2),
        (key, 2),
        ("torchvision:*", 2),
        ("*batch=1/*", 2),
    ):
        (found,) = history(pattern, root=root)
        assert len(found.points) == number, pattern
    (found,) = history(last=1, root=root)
    assert found.points[0].run.startswith("20260802")


def test_what_is_not_there_is_explained(root: Path) -> None:
    with pytest.raises(UsageError, match="run matches"):
        history(root=root)
    keep(root, 1, 0.02)
    with pytest.raises(UsageError, match="a metric called") as caught:
        history(metric="memory/host/peek", root=root)
    assert "memory/host/peak?" in caught.value.next


def test_few_runs_are_shown_and_nothing_is_said_of_changes(root: Path) -> None:
    for number in range(1, 4):
        keep(root, number, 0.02 * number)
    (found,) = history(root=root)
    assert found.steps == []
    assert "3 runs" in found.note


def test_the_table_has_a_line_of_blocks_and_the_changes(root: Path) -> None:
    found = stepped(root)
    shown = text.render_document(report.document([found], by="run"))
    blocks = next(word for word in shown.split() if set(word) <= set(report.BLOCKS))
    assert len(blocks) == 24
    assert blocks[:14] < blocks[14:]
    assert "worse 1.15x" in shown
    assert "commits" in shown
    assert "| " in markdown.render_document(report.document([found], by="commit"))


def test_noise_of_a_percent_is_no_mountain() -> None:
    assert set(report.sparkline([1.0, 1.005, 0.995, 1.0])) <= set("▃▄▅▆")
    assert report.sparkline([2.0]) in report.BLOCKS
    assert len(report.sparkline([float(n) for n in range(1, 500)])) == report.WIDTH


def test_the_page_is_whole_and_safe(root: Path) -> None:
    found = stepped(root)
    evil = structs.replace(found, case="<img src=x onerror=alert(1)>", note="\x1b[2J</script>")
    source = page.render(report.document([found, evil], by="commit"))
    assert source == page.render(report.document([found, evil], by="commit"))
    assert "<img" not in source
    assert "\x1b" not in source
    assert source.count("<svg") >= 2
    assert "worse" in source
    assert "http" not in source.replace("http-equiv", "")
    assert len(source) < 500_000


def test_a_few_runs_are_not_called_steady(root: Path) -> None:
    for number in range(1, 4):
        keep(root, number, 0.020)
    verdict = report.document(history(root=root), by="run").verdict
    assert verdict.word == "too few runs"
    assert verdict.tone == "unknown"
    assert "at least 10 runs of a case; the most there are is 3" in verdict.sentence


def test_enough_runs_without_a_change_are_steady(root: Path) -> None:
    for number in range(1, 13):
        keep(root, number, 0.020)
    assert report.document(history(root=root), by="run").verdict.word == "steady"
