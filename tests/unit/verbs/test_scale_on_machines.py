"""`laptime scale --on` on scripted jobs: who gets which ranks, what is kept of each machine, who failed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.analysis.ranks import rank_rows
from laptime.instrument.messages import Ended, Observed, Sample, Settings
from laptime.kit.errors import Died, UserCodeError
from laptime.launch.fleet import Machine
from laptime.launch.fleet.node import Lost
from laptime.launch.script import Outcome, Program
from laptime.pricing.speeds import speeds
from laptime.probes import machine as here
from laptime.probes.rendezvous import NETWORK, meet
from laptime.records.event import Listener
from laptime.records.run import Run
from laptime.reports.documents.scale import document
from laptime.store.live_run import LiveRun
from laptime.verbs.scale import job, judged
from laptime.verbs.scale import run as verb
from laptime.verbs.scale.request import ScaleRequest

PHASES = {"data": 0, "forward": 0, "backward": 0, "optimizer": 0}
WALL = 100_000_000  # nanoseconds of a step, whatever the ranks
Fails = Callable[[str, int], str]  # the error of a rank by its machine and the ranks of the job; "" for none


class Nodes:
    """Answers in place of nodes and of torchrun; the rendezvous is a real one. lost: machines by the job in
    which they are."""

    def __init__(self, *names: str, place: str = "", fails: Fails = lambda name, ranks: "") -> None:
        self.machines = [Machine(name, (), place or name) for name in names]
        self.fails, self.others = fails, 0.0
        self.started: list[dict[str, int]] = []  # ranks by machine, of each job
        self.launchers: list[str] = []
        self.lost: dict[str, int] = {}
        self.environments = dict.fromkeys(names, runs.environment())

    def run_on(self, machine: Machine, name: str, request: job.JobRequest, hear: Listener, **_: Any) -> Run:
        assert name == "ranks"
        if request.meeting.number == 0:
            self.started.append(dict(zip(request.meeting.names, request.spread, strict=True)))
        if len(self.started) > self.lost.get(machine.name, 1000):
            meet(request.meeting, LiveRun("ranks", hear))
            raise Lost("was ended by SIGKILL")
        run = job.ranks(request, hear)
        return structs.replace(run, environment=self.environments[machine.name])

    def execute(
        self, program: Program, *, settings: Settings, ranks: int, variables: dict[str, str], **_: Any
    ) -> Outcome:
        line = " ".join(program.words)
        self.launchers.append(line)
        number = re.search(r"--node-rank=(\d+)", line)
        spread = [*self.started[-1].items()]
        at = int(number[1]) if number else 0
        world, first = sum(each for _, each in spread), sum(each for _, each in spread[:at])
        if error := self.fails(spread[at][0], world):
            return Outcome(ended=[Ended(how="raised", status=1, error=error)], status=1)
        seen = [self.rank(first + each, world, settings) for each in range(ranks)]
        return Outcome(observed=seen, others=self.others)

    def rank(self, rank: int, world: int, settings: Settings) -> Observed:
        seen = Observed(rank=rank, world=world, pid=rank, source="optimizer", joined=True, batches=10)
        seen.untraced = [Sample(wall=WALL, host=WALL, cpu=WALL, phases=PHASES)] * settings.exactly
        seen.samples = 32 / (world if settings.shares_batch else 1)
        return seen


Measure = Callable[..., Run]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """The verb on scripted machines of two CPUs."""
    (tmp_path / "train.py").write_text("print()")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv(NETWORK, "lo")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "lo")
    monkeypatch.setattr(job, "environment", lambda observed: runs.environment())
    monkeypatch.setattr(here, "environment", runs.environment)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})

    def measured(nodes: Nodes, **options: Any) -> Run:
        monkeypatch.setattr(verb, "run_on", nodes.run_on)
        monkeypatch.setattr(job, "execute", nodes.execute)
        options = {"scaling": "weak", "jobs": 3, **options}
        request = ScaleRequest(program=str(tmp_path / "train.py"), **options)
        return verb.scale(request, machines=nodes.machines)

    return measured


def test_one_machine_is_filled_before_the_next_one_gets_ranks(measure: Measure) -> None:
    nodes = Nodes("a", "b", "c")
    run = measure(nodes, ranks=[1, 3, 6], jobs=1)
    assert sorted(nodes.started, key=lambda each: sum(each.values())) == [
        {"a": 1},
        {"a": 2, "b": 1},
        {"a": 2, "b": 2, "c": 2},
    ]
    assert [row.rate.value for row in rank_rows(run.cases)] == pytest.approx([320, 960, 1920])
    assert [case.axes["machines"] for case in run.cases] == [2, 1, 3]
    assert {case.axes["threads"] for case in run.cases} == {1}, "CPUs of a machine over its most ranks"


def test_torchrun_is_told_the_address_that_the_others_have_found(measure: Measure) -> None:
    nodes = Nodes("a", "b")
    measure(nodes, ranks=[1, 2], jobs=1)
    one = [line for line in nodes.launchers if "--standalone" in line]
    both = [line for line in nodes.launchers if "--nnodes=2" in line]
    assert (len(one), len(both)) == (1, 2)
    assert len({re.sub(r"--node-rank=\d", "", line) for line in both}) == 1, "one address, one port"
    assert "--master-addr=127.0.0.1" in both[0]


def test_the_environment_of_each_machine_is_kept_and_reports_show_how_many(measure: Measure) -> None:
    nodes = Nodes("a", "b")
    nodes.environments["b"] = structs.replace(runs.environment(), host="other")
    run = measure(nodes, ranks=[1, 2])
    hosts = {name: each["host"] for name, each in run.plan["machines"].value.items()}
    assert hosts == {"a": runs.environment().host, "b": "other"}
    assert run.trust == "trusted"
    table = next(block for block in document(run).brief if getattr(block, "id", "") == "rank")
    assert "machines" in [column.title for column in table.columns]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cpu": "another one"}, "the machines are of 2 kinds"),
        ({"libraries": {"torch": "1.0"}}, "the machines are of 2 versions of torch"),
    ],
)
def test_machines_that_differ_are_named(change: dict[str, Any], says: str, measure: Measure) -> None:
    nodes = Nodes("a", "b")
    nodes.environments["b"] = structs.replace(runs.environment(), **change)
    (check,) = [check for check in measure(nodes, ranks=[1, 2]).checks if check.name == "alike"]
    assert check.sentence.startswith(says)
    assert "b " in check.sentence
    assert check.outcome == "warn"


def test_a_machine_that_is_lost_costs_the_jobs_that_need_it(measure: Measure) -> None:
    nodes = Nodes("a", "b")
    nodes.lost["b"] = 2  # jobs
    run = measure(nodes, ranks=[1, 2], jobs=5)
    assert {case.axes["ranks"]: case.status for case in run.cases} == {1: "ok", 2: "failed"}
    one, two = sorted(run.cases, key=lambda case: str(case.axes["ranks"]))
    assert len(one.series[0].samples) == 5
    assert two.failure is not None
    assert (two.failure.kind, two.failure.what) == ("died", "b was lost")
    assert two.failure.why == "was ended by SIGKILL"
    nodes = Nodes("a", "b")
    nodes.lost["b"] = 0
    with pytest.raises(Died, match="b was lost"):
        measure(nodes, ranks=[1, 2])


@pytest.mark.parametrize("culprit", ["a", "b"])
def test_the_rank_that_fails_is_told_and_not_the_one_that_misses_it(culprit: str, measure: Measure) -> None:
    missed = "RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:21000"
    nodes = Nodes("a", "b", fails=lambda name, ranks: "ValueError: planted" if name == culprit else missed)
    with pytest.raises(UserCodeError) as error:
        measure(nodes, ranks=[1, 2])
    assert "ValueError: planted" in error.value.why
    assert error.value.next.startswith("without laptime: torchrun --nproc-per-node=1 ")


def test_nodes_of_one_machine_share_its_cpus_and_are_no_other_programs(measure: Measure) -> None:
    nodes = Nodes("local-1", "local-2", "local-3", place="local")
    nodes.others = 1.9
    run = measure(nodes, ranks=[1, 3])
    (check,) = [check for case in run.cases for check in case.checks if check.name == "cpus"]
    assert check.sentence.startswith("3 ranks of 1 thread share 2 CPUs")
    assert not [check for check in run.checks if check.name == "crowd" and "1.9 of" not in check.sentence]
    facts = {case.axes["ranks"]: case.details.ranks for case in run.cases}
    assert {ranks: each.machines for ranks, each in facts.items() if each} == {1: 1, 3: 1}


def test_every_machine_has_its_price(measure: Measure) -> None:
    run = measure(Nodes("a", "b"), ranks=[1, 2], usd_per_hour=3.6)
    facts = {case.axes["ranks"]: case.details.ranks for case in run.cases}
    usd = {ranks: each.usd for ranks, each in facts.items() if each}
    # 0.1 cents a second: 320 samples take one of them a second, both of them half of one
    assert usd == pytest.approx({1: 0.001, 2: 0.001})
    assert {each.at for each in speeds(run).speeds} == {"training", "training, a share of 2 machines"}


def test_the_parts_are_json(measure: Measure) -> None:
    run = measure(Nodes("a", "b"), ranks=[1, 2], jobs=1)
    json.dumps(run.plan["machines"].value)
    assert judged.alike({}) == []
