"""A folder is not one job because its files lie in it: ranks of a job are told by what they share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures import traces
from laptime.kit.errors import UsageError
from laptime.trace.reading import trace_files
from laptime.verbs import trace as verb


def write(folder: Path, *names: str, ranks: range | None = None, world: int = 8, **more: Any) -> None:
    """Traces with a step each; those of `ranks` state their job."""
    for name, rank in zip(names, ranks or [None] * len(names), strict=True):
        step = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 7}
        stated = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world, **more}}
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**(stated if rank is not None else {}), "traceEvents": [step]}))


def apart(folder: Path) -> list[list[str]]:
    found = trace_files.apart(sorted(path for path in folder.rglob("*") if path.is_file()))
    return [[str(path.relative_to(folder)) for path in job] for job in found.jobs]


def test_unrelated_models_are_not_ranks(tmp_path: Path) -> None:
    write(tmp_path, "bert.json", "vit.json", "resnet50_num_workers_0.json", "resnet50_num_workers_4.json")
    assert [len(job) for job in apart(tmp_path)] == [1, 1, 1, 1]


def test_ranks_are_told_by_what_the_files_state_whatever_their_names(tmp_path: Path) -> None:
    write(tmp_path, "a_11111.json", "b_22222.json", ranks=range(2))
    write(tmp_path, "c.json", "d.json", "e.json", ranks=range(3), world=4)
    write(tmp_path, "alone.json", ranks=range(1), world=1)
    assert apart(tmp_path) == [
        ["c.json", "d.json", "e.json"],
        ["a_11111.json", "b_22222.json"],
        ["alone.json"],
    ]


def test_ranks_are_told_by_names_that_differ_in_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, "big-rank0.json", "big-rank1.json", "small-rank0.json", "rank2/t.json", "rank3/t.json")
    assert apart(tmp_path) == [
        ["big-rank0.json", "big-rank1.json"],
        ["rank2/t.json", "rank3/t.json"],
        ["small-rank0.json"],
    ]


def test_two_recordings_of_a_job_are_two(tmp_path: Path) -> None:
    write(tmp_path, "a0.json", "a1.json", "b0.json", "b1.json")
    write(tmp_path, "x/rank0.json", "x/rank1.json", ranks=range(2))
    write(tmp_path, "y/rank0.json", "y/rank1.json", ranks=range(2))
    assert apart(tmp_path)[:2] == [["x/rank0.json", "x/rank1.json"], ["y/rank0.json", "y/rank1.json"]]
    assert [len(job) for job in apart(tmp_path)[2:]] == [1, 1, 1, 1]


def test_files_without_ranks_belong_together_if_written_at_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        "host_12345.1694128201547.pt.trace.json",
        "host_12346.1694128202547.pt.trace.json",
        "host_12999.1694128901547.pt.trace.json",
    )
    assert [len(job) for job in apart(tmp_path)] == [2, 1]


def test_the_eight_ranks_of_a_real_job_are_one_and_a_stranger_is_listed(tmp_path: Path) -> None:
    for path in sorted(traces.path("dlrm_8_ranks").iterdir()):
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "a_stranger.json.gz").symlink_to(traces.path("h100_bert_small.json.gz"))
    run = verb.trace([tmp_path])
    assert run.profile is not None
    assert [row.rank for row in run.profile.ranks] == list(range(8))
    assert run.profile.other_jobs == ["a_stranger.json.gz"]
    said = {check.name: check.sentence for check in run.checks}
    assert "1 trace" in said["job"]
    assert run.trust != "invalid"


def test_some_ranks_of_a_job_are_not_taken_for_all(tmp_path: Path) -> None:
    write(tmp_path, "rank0.json", "rank1.json", ranks=range(2), world=128)
    said = {check.name: check.sentence for check in verb.trace([tmp_path]).checks}
    assert said["ranks"].startswith("2 of the job's 128")


def test_the_tables_of_any_rank_can_be_shown(tmp_path: Path) -> None:
    for path in sorted(traces.path("dlrm_8_ranks").iterdir()):
        (tmp_path / path.name).symlink_to(path)
    first, later = (verb.analyse([tmp_path], rank=rank) for rank in (None, 5))
    assert (first.rank, later.rank) == (0, 5)
    assert later.operators == verb.analyse(sorted(tmp_path.glob("worker5*"))).operators
    assert later.ranks == first.ranks
    with pytest.raises(UsageError, match="rank 9"):
        verb.analyse([tmp_path], rank=9)
