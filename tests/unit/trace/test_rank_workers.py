"""The ranks of a job, each read in its own process where that pays, come together in one profile."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from laptime.kit.errors import ExitCode, UsageError
from laptime.process.peer import Peer
from laptime.store import lookup
from laptime.store.live_run import record_run
from laptime.trace import ranks
from laptime.trace.reading import trace_files
from laptime.verbs import trace as verb


def rank(late: int, *, number: int | None = None, steps: int = 3) -> bytes:
    """Steps of 1 ms, each with a kernel and an all-reduce that this rank reaches `late` us into its step."""
    events: list[dict[str, Any]] = []
    for step in range(steps):
        at = 1_000_000 + step * 1000
        events += [
            {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
             "ts": at, "dur": 1000},
            *work("aten::mm", "gemm", at + 10, 100, step * 10 + 1, 7),
            *work("nccl:all_reduce", "ncclDevKernel_AllReduce", at + late, 900 - late, step * 10 + 2, 20),
        ]  # fmt: skip
    found: dict[str, Any] = {"traceEvents": events}
    if number is not None:
        found["distributedInfo"] = {"rank": number, "world_size": 2}
    return json.dumps(found).encode()


def work(
    operator: str, kernel: str, at: int, took: int, correlation: int, stream: int
) -> list[dict[str, Any]]:
    host = {"ph": "X", "pid": 1, "tid": 1}
    return [
        {**host, "cat": "cpu_op", "name": operator, "ts": at - 5, "dur": 5},
        {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at - 4, "dur": 2,
         "args": {"correlation": correlation}},
        {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": stream, "ts": at, "dur": took,
         "args": {"correlation": correlation, "device": 0, "stream": stream}},
    ]  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "rank-0.json").write_bytes(rank(200, number=0))
    (folder / "rank-1.json").write_bytes(rank(700, number=1))
    return folder


@pytest.mark.parametrize("small", [0, ranks.SMALL])
def test_a_folder_is_one_job_with_its_straggler(
    job: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "SMALL", small)
    found = verb.analyse([job])
    assert [row.rank for row in found.ranks] == [0, 1]
    assert [row.last_arrivals for row in found.ranks] == [0, 3]
    assert [each.skew_ns for each in found.collectives] == [500_000] * 3
    assert [each.rank for each in found.stragglers] == [1]
    assert [file.name for file in found.files] == ["rank-0.json", "rank-1.json"]


def test_a_process_reads_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One a CPU, not one a file: starting an interpreter takes longer than reading a megabyte."""
    started = list[list[str]]()
    start = Peer.start

    def counted(command: list[str]) -> Any:
        started.append(command)
        return start(command)

    monkeypatch.setattr(ranks, "SMALL", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(Peer, "start", counted)
    for number in range(7):
        (tmp_path / f"rank-{number}.json").write_bytes(rank(100 * number, number=number))
    found = verb.analyse([tmp_path])
    assert [row.rank for row in found.ranks] == list(range(7))
    assert len(started) == 2


def test_ranks_that_files_do_not_tell_come_from_their_names_and_their_order(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("worker3.json", "other.json", "rank1.json")]
    for path in files:
        path.write_bytes(rank(200))
    assert {row.file: row.rank for row in verb.analyse(files).ranks} == {
        "other.json": 0,
        "rank1.json": 1,
        "worker3.json": 3,
    }


def test_two_files_of_one_rank_are_told(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.json", "b.json")]
    for path in files:
        path.write_bytes(rank(200, number=0))
    found = verb.analyse(files)
    assert [row.rank for row in found.ranks] == [0, 1]
    assert "b.json says rank 0 like another file; shown as 1" in found.files[0].warnings


@pytest.mark.parametrize("small", [0, ranks.SMALL])
def test_a_file_of_a_folder_that_is_no_trace_is_passed_over_and_told(
    job: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "SMALL", small)
    (job / "zoo.json").write_text("{}")
    (job / "aaa.json").write_text("hello")
    found = verb.analyse([job])
    assert len(found.ranks) == 2
    left_out = [warning for warning in found.files[0].warnings if "left out" in warning]
    assert [warning.split()[0] for warning in left_out] == ["aaa.json", "zoo.json"]
    assert all("traceEvents" in warning for warning in left_out)


def test_a_file_that_was_named_must_be_a_trace(job: Path) -> None:
    (job / "zoo.json").write_text("{}")
    with pytest.raises(UsageError, match=r"zoo\.json"):
        verb.analyse([job / "zoo.json"])


def test_a_folder_of_other_json_files_is_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(trace_files.NoTraces) as raised:
        verb.analyse([tmp_path])
    assert raised.value.exit_code == ExitCode.NOTHING


def test_a_run_of_a_trace_is_kept_and_loads_again(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    slim = tmp_path / "small.json.gz"
    run, complaint = record_run(lambda emit: verb.trace([job], emit, name="mine", slim=slim))
    assert complaint is None
    again = lookup.load("mine")
    assert again.id == run.id
    assert again.profile == run.profile
    assert again.status == "complete"
    assert verb.analyse([tmp_path / "small.json.gz"]).overview.step_ns == run.profile.overview.step_ns


def test_a_disk_that_takes_nothing_costs_no_result(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("a file, no folder")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where the run goes instead
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    run, complaint = record_run(lambda emit: verb.trace([job], emit))
    assert run.profile is not None
    assert complaint is not None
    assert "be saved" in complaint.what
    assert str(tmp_path) in complaint.next


def test_against_compares_with_another_job(job: Path, tmp_path: Path) -> None:
    other = tmp_path / "before.json"
    other.write_bytes(rank(200, number=0, steps=5))
    run = verb.trace([job / "rank-0.json"], against=[other])
    assert run.profile is not None
    assert run.profile.against is not None
    assert run.profile.against.speedup == pytest.approx(1.0)


def test_few_steps_and_damage_make_a_trace_noisy(job: Path, tmp_path: Path) -> None:
    assert verb.trace([job]).trust == "trusted"
    cut = tmp_path / "cut.json"
    cut.write_bytes(rank(200, number=0)[:-300])
    run = verb.trace([cut])
    assert run.trust == "noisy"
    assert {check.name: check.outcome for check in run.checks}["complete"] == "warn"
