"""Container limits from fake control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.fake_root import FakeRoot
from laptime.kit import system_files


@pytest.fixture
def tree(tmp_path: Path) -> FakeRoot:
    return FakeRoot(tmp_path)


def test_a_version_2_quota_is_in_cpus(tree: FakeRoot) -> None:
    tree.cgroup2("/app", {"cpu.max": "150000 100000", "cpu.stat": ""})
    assert system_files.cpu_quota(tree.root) == 1.5


def test_a_version_1_quota_is_in_cpus(tree: FakeRoot) -> None:
    tree.cgroup1("cpu", "/docker/a", {"cpu.cfs_quota_us": "250000", "cpu.cfs_period_us": "100000"})
    assert system_files.cpu_quota(tree.root) == 2.5


@pytest.mark.parametrize("words", ["max 100000", "", "nonsense", "100000 0"])
def test_no_quota_is_none(tree: FakeRoot, words: str) -> None:
    tree.cgroup2("/app", {"cpu.max": words, "cpu.stat": ""})
    assert system_files.cpu_quota(tree.root) is None


def test_a_version_1_quota_of_minus_one_is_none(tree: FakeRoot) -> None:
    tree.cgroup1("cpu", "/a", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"})
    assert system_files.cpu_quota(tree.root) is None


def test_the_tightest_quota_on_the_way_up_counts(tree: FakeRoot) -> None:
    tree.cgroup2("/pod/app", {"cpu.max": "800000 100000", "cpu.stat": ""})
    tree.put("sys/fs/cgroup/pod/cpu.max", "300000 100000")
    assert system_files.cpu_quota(tree.root) == 3.0


def test_a_container_that_sees_the_hosts_path_finds_its_own_mount(tree: FakeRoot) -> None:
    tree.cgroup2("/kube/pod7", {"cpu.max": "200000 100000", "cpu.stat": ""}, mount_root="/kube/pod7")
    assert system_files.cpu_quota(tree.root) == 2.0


def test_a_path_outside_the_mount_falls_back_to_the_mount(tree: FakeRoot) -> None:
    tree.cgroup2("/", {"cpu.max": "200000 100000", "cpu.stat": ""})
    tree.put("proc/self/cgroup", "0::/../../elsewhere\n")
    assert system_files.cpu_quota(tree.root) == 2.0


def test_on_a_hybrid_machine_version_1_is_in_charge(tree: FakeRoot) -> None:
    tree.cgroup1("cpu", "/a", {"cpu.cfs_quota_us": "100000", "cpu.cfs_period_us": "100000"})
    tree.cgroup2("/", {})
    assert system_files.cpu_quota(tree.root) == 1.0


def test_memory_limits_of_both_versions_are_in_bytes(tmp_path: Path) -> None:
    new, old = FakeRoot(tmp_path / "new"), FakeRoot(tmp_path / "old")
    new.cgroup2("/a", {"memory.max": "1073741824", "memory.stat": ""})
    old.cgroup1("memory", "/a", {"memory.limit_in_bytes": "1073741824"})
    assert system_files.memory_limit(new.root) == system_files.memory_limit(old.root) == 2**30


def test_the_huge_number_of_version_1_means_no_limit(tree: FakeRoot) -> None:
    tree.cgroup1("memory", "/a", {"memory.limit_in_bytes": "9223372036854771712"})
    assert system_files.memory_limit(tree.root) is None
    assert system_files.memory_headroom(tree.root) is None


def test_a_machine_without_control_groups_has_no_limits(tree: FakeRoot) -> None:
    assert system_files.groups("cpu", tree.root) == []
    assert system_files.cpu_quota(tree.root) is None
    assert system_files.memory_limit(tree.root) is None
