"""A suite on several machines: every benchmark is found once, also when a machine is lost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from laptime.launch.fleet import NODE, Machine
from laptime.records.run import Run
from laptime.store.files import list_files, read
from laptime.suites.loading import load
from laptime.verbs import suite

HERE = (sys.executable, *NODE)
DYING = (sys.executable, "-c", 'print(\'{"type":"beat"}\', flush=True)')


@pytest.fixture
def items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[suite.PlannedBenchmark]:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    file = tmp_path / "four.toml"
    table = '[[benchmark]]\nname = "b{0}"\ntarget = "null:sleep={0}ms"\nbackend = "null"\nbudget = "300ms"\n'
    file.write_text("\n".join(table.format(number) for number in range(1, 5)))
    return suite.prepare(load(str(file)))


def names(run: Run) -> list[str]:
    return [str(case.axes["benchmark"]) for case in run.cases if case.status == "ok"]


def test_every_benchmark_is_found_once_when_a_machine_is_lost(items: list[suite.PlannedBenchmark]) -> None:
    ended: list[str] = []
    machines = [Machine("dies", DYING), Machine("one", HERE), Machine("two", HERE)]
    run = suite.measure(items, machines=machines, ended=lambda item, run: ended.append(item.benchmark.name))
    assert names(run) == ["b1", "b2", "b3", "b4"]
    assert sorted(ended) == ["b1", "b2", "b3", "b4"]
    assert sorted(read(path).name for path in list_files()) == [f"four:b{number}" for number in range(1, 5)]


def test_when_all_are_lost_each_benchmark_says_so(items: list[suite.PlannedBenchmark]) -> None:
    run = suite.measure(items, machines=[Machine("dies", DYING), Machine("too", DYING)])
    failures = [case.failure for case in run.cases]
    assert [each and each.kind for each in failures] == ["died"] * 4
    assert failures[0] is not None
    assert failures[0].what.startswith("four:b1: ")
