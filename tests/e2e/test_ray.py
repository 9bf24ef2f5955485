"""A suite on a Ray cluster of three nodes that this test starts: one is killed, and no case is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laptime.kit.errors import UsageError
from laptime.launch.fleet import machines
from laptime.records.run import Run
from laptime.store.files import list_files, read
from laptime.suites.loading import load
from laptime.verbs import suite

pytestmark = pytest.mark.slow
cluster_utils = pytest.importorskip("ray.cluster_utils", reason="needs ray: pip install ray")
SIX = "\n".join(
    f'[[benchmark]]\nname = "b{n}"\ntarget = "null:sleep={n}ms"\nbackend = "null"\nbudget = "6s"\n'
    for n in range(1, 7)
)


@pytest.fixture
def cluster() -> Iterator[Any]:
    started = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        for _ in range(2):
            started.add_node(num_cpus=1)
        yield started
    finally:
        started.shutdown()


@pytest.mark.timeout(600)
def test_a_node_that_is_killed_loses_no_case(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    (tmp_path / "six.toml").write_text(SIX)
    found = machines(f"ray:{cluster.address}")
    assert len({each.name for each in found}) == 3, "nodes of one host have names of their own"
    killed: list[str] = []

    def ended(item: suite.PlannedBenchmark, run: Run) -> None:
        if not killed:  # the others are in the middle of something
            time.sleep(2.0)
            node = next(iter(cluster.worker_nodes))
            killed.append(node.node_id)
            cluster.remove_node(node, allow_graceful=False)

    run = suite.measure(suite.prepare(load(str(tmp_path / "six.toml"))), machines=found, ended=ended)
    assert killed
    done = sorted(case.axes["benchmark"] for case in run.cases if case.status == "ok")
    assert done == [f"b{n}" for n in range(1, 7)], [case.failure for case in run.cases]
    names = sorted(run.name for run in map(read, list_files()) if run.status == "complete")
    assert names == [f"six:b{n}" for n in range(1, 7)], "every case once, beside what the dead node had begun"


def test_a_cluster_that_does_not_answer_is_named() -> None:
    with pytest.raises(UsageError, match=r"no Ray cluster answers at '127\.0\.0\.1:9'"):
        machines("ray:127.0.0.1:9")
