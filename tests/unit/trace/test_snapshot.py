"""Memory snapshots of PyTorch's allocator: what was alive at the peak, by line; hostile pickles."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from advice.made.training import allocator_retries
from fixtures.memory_snapshots import MIB, snapshot, written
from laptime import rules
from laptime.kit.errors import UsageError
from laptime.records.profile import Profile
from laptime.reports.documents.profile.sections import _device_memory
from laptime.trace.reading import reader
from laptime.verbs.trace import analyse, checks


def profile(folder: Path, content: Any) -> Profile:
    return analyse([written(folder, content)])


def test_the_peak_counts_what_was_there_before_the_record(tmp_path: Path) -> None:
    (memory,) = profile(tmp_path, snapshot()).memory
    assert (memory.device, memory.peak, memory.reserved_peak) == ("cuda:0", 350 * MIB, 512 * MIB)
    assert memory.unknown_live == 50 * MIB


def _recorded(folder: Path) -> Profile:
    path = folder / "rank0.pt.trace.json.gz"
    allocator_retries().write(path)
    return analyse([path])


def test_kinds_over_time_sum_to_the_curve(tmp_path: Path) -> None:
    for memory in (
        *profile(tmp_path, snapshot()).memory,
        *_recorded(tmp_path).memory,
    ):
        assert memory.kinds
        sums = [sum(sizes) for sizes in zip(*(sizes for _, sizes in memory.kinds), strict=True)]
        assert sums == [point.allocated for point in memory.curve]
        assert all(size >= 0 for _, sizes in memory.kinds for size in sizes)


def test_kinds_at_the_peak_stand_in_words_beside_the_drawing(tmp_path: Path) -> None:
    (memory,) = profile(tmp_path, snapshot()).memory
    note = _device_memory(memory, 0).note
    assert "at the peak activations 200 MiB, weights 100 MiB, older than the record 50.0 MiB" in note


def test_what_was_alive_at_the_peak_is_told_by_the_users_line(tmp_path: Path) -> None:
    (memory,) = profile(tmp_path, snapshot()).memory
    assert [(row.operator, row.bytes, row.blocks) for row in memory.live] == [
        ("ada/model.py(33): forward", 200 * MIB, 1),
        ("ada/train.py(12): build", 100 * MIB, 1),
    ]


def test_lines_are_listed_by_what_they_allocated(tmp_path: Path) -> None:
    (memory,) = profile(tmp_path, snapshot()).memory
    rows = {row.operator: (row.allocated, row.allocations, row.increase) for row in memory.operators}
    assert rows["ada/model.py(33): forward"] == (220 * MIB, 2, 20 * MIB)
    assert rows["ada/train.py(12): build"] == (100 * MIB, 1, 100 * MIB)


def test_the_first_line_tells_the_peak_and_its_line_and_no_rule_talks_of_steps(tmp_path: Path) -> None:
    found = profile(tmp_path, snapshot())
    assert found.verdict is not None
    assert found.verdict.bound == "memory"
    assert "57 % of it was allocated by ada/model.py(33): forward" in found.verdict.sentence
    assert found.device_type == "cuda"
    assert rules.diagnose(found) == []


def test_a_failed_allocation_is_a_warning(tmp_path: Path) -> None:
    assert "1 allocation failed, the largest of 900 MiB" in profile(tmp_path, snapshot()).files[0].warnings[0]


def test_a_failed_allocation_asks_for_no_other_recording(tmp_path: Path) -> None:
    (check,) = checks(profile(tmp_path, snapshot()))
    assert check.outcome == "warn"
    assert "was alive" in check.next


def test_blocks_without_a_record_are_alive(tmp_path: Path) -> None:
    (memory,) = profile(tmp_path, {**snapshot(), "device_traces": [[]]}).memory
    assert memory.peak == 120 * MIB
    assert [row.bytes for row in memory.live] == [100 * MIB, 20 * MIB]


def test_two_devices_are_two_memories(tmp_path: Path) -> None:
    content = snapshot()
    content["segments"].append({**content["segments"][0], "device": 1})
    content["device_traces"].append([])
    peaks = {memory.device: memory.peak for memory in profile(tmp_path, content).memory}
    assert peaks == {"cuda:0": 350 * MIB, "cuda:1": 120 * MIB}


class Hostile:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_a_pickle_that_calls_something_is_refused_before_it_does(tmp_path: Path) -> None:
    mark = tmp_path / "called"
    path = written(tmp_path, {**snapshot(), "extra": Hostile(mark)})
    with pytest.raises(UsageError) as raised:
        reader.read(path)
    assert not mark.exists()
    assert "plain containers" in raised.value.why
    pickle.loads(path.read_bytes())  # what would have happened
    assert mark.exists()


@pytest.mark.parametrize("named", [b"cbuiltins\neval\n.", b"cos\nsystem\n(S'x'\ntR.", b"Pouter\n."])
def test_a_pickle_that_names_anything_is_refused(tmp_path: Path, named: bytes) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(named)
    with pytest.raises(UsageError):
        reader.read(path)


@pytest.mark.parametrize(
    "content",
    [
        [], 5, {}, {"segments": 3}, {"segments": {}, "device_traces": []},
        {"device_traces": {"a": 1}, "segments": []}, {"device_traces": [5, [None, {}, {"action": "alloc"}]]},
        {"segments": [{"device": -1, "blocks": 3}]}, {"segments": [{"device": 1 << 60}]},
        {"device_traces": [[{"action": "alloc", "size": -5, "addr": "x"}]]},
    ],
)  # fmt: skip
def test_what_is_no_snapshot_is_refused_in_words(tmp_path: Path, content: Any) -> None:
    with pytest.raises(UsageError) as raised:
        reader.read(written(tmp_path, content))
    assert raised.value.why
    assert "_dump_snapshot" in raised.value.next


def test_damaged_bytes_are_refused(tmp_path: Path) -> None:
    whole = pickle.dumps(snapshot())
    path = tmp_path / "snapshot.pickle"
    for end in range(0, len(whole) - 1, 37):
        path.write_bytes(whole[:end])
        with pytest.raises(UsageError):
            reader.read(path)
