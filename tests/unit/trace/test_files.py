"""What a user names becomes the files of the ranks of one job."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.kit.errors import ExitCode, UsageError
from laptime.trace.reading import trace_files


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def test_a_folder_is_its_traces_in_order(tmp_path: Path) -> None:
    touch(tmp_path, "rank-1.json.gz", "rank-0.json.gz", "notes.txt", "deep/rank-2.json")
    assert [path.name for path in trace_files.find([tmp_path]).paths] == ["rank-0.json.gz", "rank-1.json.gz"]


def test_a_folder_without_own_traces_is_those_below_it(tmp_path: Path) -> None:
    touch(tmp_path, "run/a.json", "run/.laptime/b.json")
    assert [path.name for path in trace_files.find([tmp_path]).paths] == ["a.json"]


def test_of_several_recordings_of_a_worker_the_latest_is_taken(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "worker0.1623143089861.pt.trace.json",
        "worker0.1623143566756.pt.trace.json",
        "worker1.1623143089999.pt.trace.json",
    )
    found = trace_files.find([tmp_path])
    assert [path.name for path in found.paths] == [
        "worker0.1623143566756.pt.trace.json",
        "worker1.1623143089999.pt.trace.json",
    ]
    assert ["1 earlier" in each for each in found.warnings] == [True]


def test_an_empty_folder_is_nothing_to_do(tmp_path: Path) -> None:
    with pytest.raises(trace_files.NoTraces) as raised:
        trace_files.find([tmp_path])
    assert raised.value.exit_code == ExitCode.NOTHING


def test_a_typing_mistake_brings_the_nearest_name(tmp_path: Path) -> None:
    touch(tmp_path, "trace.json")
    with pytest.raises(UsageError) as raised:
        trace_files.find([tmp_path / "trase.json"])
    assert str(tmp_path / "trace.json") in raised.value.next


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank-3.json.gz", 3),
        ("sampled_rank-12.json", 12),
        ("worker7_step_12.1694128201553.pt.trace.json.gz", 7),
        ("host_123.456.rank2.pt.trace.json", 2),
        ("RANK_5.json", 5),
        ("resnet50_num_workers_4.json.gz", None),
        ("trace.json", None),
    ],
)
def test_the_rank_is_in_the_name(name: str, rank: int | None) -> None:
    assert trace_files.rank_in(name) == rank
