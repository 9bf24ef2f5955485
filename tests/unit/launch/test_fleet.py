"""Work on other machines: what a node says and does not say, who does what next, which machine is slow."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from msgspec import structs

from laptime.kit.clock import moment, utc_now
from laptime.kit.errors import Died, TargetError, UsageError
from laptime.launch.fleet import NODE, Machine, machines
from laptime.launch.fleet.engines import slurm
from laptime.launch.fleet.node import Lost, run_on
from laptime.launch.fleet.queue import Queue, RunOn, carry_out, carry_out_one
from laptime.probes.machine import environment
from laptime.records.case import Axis, Case
from laptime.records.environment import Environment
from laptime.records.event import EnvironmentChanged, Event, Progress, RunFinished, RunStarted
from laptime.records.plan import BenchRequest
from laptime.records.requests import LATENCY
from laptime.records.series import Series
from laptime.store.encoding import encode

HERE = Machine("here", (sys.executable, *NODE), is_here=True)
QUICK = BenchRequest(
    targets=["null:spin=1ms"], backends=["null"], regimes=["isolated"], budget=0.3, processes=1
)


def speaking(text: str, rest: str = "") -> Machine:
    """A machine that answers anything with this text."""
    return Machine("there", (sys.executable, "-c", f"import sys, time; print({text!r}, flush=True); {rest}"))


def elsewhere(tmp_path: Path, before: str = "") -> Machine:
    """A node with a cache of its own, after some Python was run in it."""
    node = (
        f"{before}; import runpy; runpy.run_module('laptime.apps.node', run_name='__main__', alter_sys=True)"
    )
    return Machine("there", ("env", f"LAPTIME_CACHE={tmp_path}", sys.executable, "-c", f"import os{node}"))


OTHER_LAPTIME = encode(
    EnvironmentChanged(structs.replace(environment(), libraries={"laptime": "0.0.1"}))
).decode()


# A node


def test_a_bench_travels_and_comes_back_as_a_run() -> None:
    heard: list[Event] = []
    known: list[Environment] = []
    run = run_on(HERE, "bench", QUICK, heard.append, known=known.append)
    (case,) = run.cases
    assert case.status == "ok"
    assert case.find("latency", "isolated") is not None
    assert isinstance(heard[-1], RunFinished)
    (environment,) = known
    assert environment.hardware == run.environment.hardware
    started = next(event for event in heard if isinstance(event, RunStarted))
    assert started.run.id == run.id


def test_a_node_speaks_json_lines_and_prints_nothing_between_them(tmp_path: Path) -> None:
    target = tmp_path / "loud.py"
    target.write_text(
        "print('hello')\n\ndef build():\n    print('x' * 100_000)\n    return lambda: sum(range(99))\n"
    )
    request = json.dumps(
        {"targets": [f"{target}:build"], "backends": ["null"], "budget": 0.3, "processes": 1}
    )
    done = subprocess.run(
        [*HERE.words, "bench"], input=f"{request}\n", capture_output=True, text=True, timeout=120
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["type"] == "environment_changed"
    assert lines[-1]["type"] in ("run_finished", "beat"), done.stderr[-500:]


def test_the_error_of_a_verb_is_raised_here() -> None:
    with pytest.raises(TargetError, match="spinn"):
        run_on(HERE, "bench", BenchRequest(targets=["null:spinn=1ms"]))


@pytest.mark.parametrize("verb", ["benhc", "verify"])
def test_a_verb_that_does_not_travel_is_refused(verb: str) -> None:
    with pytest.raises(UsageError, match="no verb"):
        run_on(HERE, verb, QUICK)


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (speaking("Last login: Thu Nov 26"), "it speaks no laptime of this version: 'Last login"),
        (speaking('{"type":"beat"}', "sys.exit('no torch here')"), "ended with status 1: no torch here"),
        (speaking('{"type":"beat"}', "time.sleep(60)"), "it has said nothing for too long"),
        (speaking('{"type":"beat"}', "import os; os.kill(os.getpid(), 9)"), "was ended by SIGKILL"),
        (
            speaking('{"type":"beat"}', "import os; os.kill(os.getpid(), 19)"),
            "it has said nothing for too long",
        ),
        (
            speaking(OTHER_LAPTIME, "time.sleep(60)"),
            "it has laptime 0.0.1, this machine has",
        ),
        (Machine("no Python", ("sh", "-c", "/no/such/python")), "ended with status 127: "),
        (
            Machine("none", ("/no/such/program",)),
            "/no/such/program does not start: No such file or directory",
        ),
    ],
)
def test_a_machine_that_is_lost_says_how(machine: Machine, says: str) -> None:
    with pytest.raises(Lost) as lost:
        run_on(machine, "bench", QUICK, silent=1.0, start=20.0)
    assert str(lost.value).startswith(says)


def test_a_node_stops_when_nobody_listens_any_more() -> None:
    slow = BenchRequest(targets=["null:spin=1ms"], backends=["null"], budget=60.0, processes=1)
    node = subprocess.Popen([*HERE.words, "bench"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert node.stdin is not None
    assert node.stdout is not None
    node.stdin.write(
        json.dumps({"targets": slow.targets, "backends": ["null"], "budget": 60.0}).encode() + b"\n"
    )
    node.stdin.flush()
    node.stdout.readline()
    node.stdin.close()
    node.stdout.close()  # as when ssh is gone
    assert node.wait(30) == 130


def test_it_can_be_stopped_from_another_thread() -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Lost, match="stopped"):
        run_on(speaking('{"type":"beat"}', "time.sleep(60)"), "bench", QUICK, stop=stop.is_set)
    assert time.monotonic() - began < 20.0


def test_a_run_has_the_time_of_this_machine(tmp_path: Path) -> None:
    late = "; import laptime.kit.clock as c; c.utc_now = lambda: '2001-01-01T00:00:00Z'"
    run = run_on(elsewhere(tmp_path, late), "bench", QUICK)
    assert abs(moment(run.started) - moment(utc_now())).total_seconds() < 60.0


def test_a_node_without_torch_says_so_in_the_case(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError(\"No module named 'torch'\")\n")
    shadow = f"; os.environ['PYTHONPATH'] = {str(tmp_path)!r} + ':' + os.environ.get('PYTHONPATH', '')"
    request = BenchRequest(targets=["torchvision:resnet18"], budget=0.3, processes=1)
    (case,) = run_on(elsewhere(tmp_path, shadow), "bench", request).cases
    assert case.failure is not None
    assert case.failure.kind == "unavailable"
    assert "torch" in case.failure.what


def test_a_target_that_prints_a_million_lines_is_measured(tmp_path: Path) -> None:
    target = tmp_path / "loud.py"
    target.write_text("def build():\n    print('x\\n' * 1_000_000)\n    return lambda: sum(range(99))\n")
    request = structs.replace(QUICK, targets=[f"{target}:build"])
    assert [case.status for case in run_on(HERE, "bench", request).cases] == ["ok"]


def test_a_machine_does_one_thing_at_a_time_whoever_asks(tmp_path: Path) -> None:
    heard: list[Event] = []
    began = threading.Event()
    machine = elsewhere(tmp_path)
    first = threading.Thread(
        target=run_on, args=(machine, "bench", QUICK), kwargs={"known": lambda _: began.set()}
    )
    first.start()
    assert began.wait(60)
    run = run_on(machine, "bench", QUICK, heard.append)
    first.join(60)
    assert run.status == "complete"
    assert isinstance(heard[0], Progress)
    assert heard[0].text == "there is busy: another laptime measures there"


# Engines


def test_machines_are_named_by_their_engine() -> None:
    assert [each.name for each in machines("local:3")] == ["local-1", "local-2", "local-3"]
    first, second = machines("ssh:a,root@b/opt/env/bin/python")
    assert first.words[-2:] == ("a", "python3 -m laptime.apps.node")
    assert second.words[-2:] == ("root@b", "/opt/env/bin/python -m laptime.apps.node")


@pytest.mark.parametrize(
    "text", ["local:0", "local:many", "ssh:", "ssh:a,a", "ssh:-oProxyCommand=ls", "ssh:a;ls", "ssf:a"]
)
def test_what_names_no_machine_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        machines(text)


def test_machines_are_chosen_by_patterns_of_names() -> None:
    assert [each.name for each in machines("ssh:a100-1,a100-2,v100-1", "a100*")] == ["a100-1", "a100-2"]
    assert [each.name for each in machines("ssh:a100-1,a100-2,v100-1", "v*, a100-2")] == ["a100-2", "v100-1"]
    with pytest.raises(UsageError, match="matches none") as error:
        machines("ssh:a,b", "A")
    assert "a, b" in error.value.why


def test_slurm_names_the_nodes_that_take_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "n1 idle\\nn2 mixed\\nn3 down*\\nn4 drained\\nn1 idle\\nn5 allocated"
    fake = tmp_path / "sinfo"
    fake.write_text(f"#!/bin/sh\nprintf '{answer}\\n'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = slurm.machines("debug")
    assert [each.name for each in found] == ["n1", "n2", "n5"]
    assert {"--partition=debug", "--exclusive", "--nodelist=n1"} < {*found[0].words}
    fake.write_text("#!/bin/sh\nprintf 'n3 down*\\nn4 drained\\n'\n")
    with pytest.raises(UsageError) as error:
        slurm.machines("")
    assert error.value.why == "n3 is down*, n4 is drained"
    fake.write_text(
        "#!/bin/sh\necho 'slurm_load_partitions: Unable to contact slurm controller' >&2\nexit 1\n"
    )
    with pytest.raises(UsageError, match="Slurm's sinfo failed"):
        slurm.machines("")
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="no program sinfo"):
        slurm.machines("")


def test_slurm_inside_a_job_takes_its_nodes_with_all_of_their_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sinfo").write_text('#!/bin/sh\nfor last; do :; done; echo "${last#--nodes=} allocated"\n')
    (tmp_path / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n7")
    (found,) = slurm.machines("")
    assert found.name == "n7"
    assert "--exclusive" not in found.words, "a step would have one CPU a task"


# The queue


def alike(one: str, other: str) -> bool:
    return one[0] == other[0]


def test_a_job_whose_machine_was_lost_goes_to_one_of_its_kind() -> None:
    queue = Queue(2)
    assert queue.next("a1", alike) == 0
    assert queue.next("b1", alike) == 1
    assert queue.back(0, "a1")
    assert queue.next("a1", alike) is None, "it was lost"
    assert queue.next("b2", alike) is None, "another kind of machine has other numbers"
    assert queue.next("a2", alike) == 0
    assert not queue.back(0, "a2"), "two machines were lost with it: it may be what kills them"


@pytest.mark.parametrize("seed", range(20))
def test_every_job_is_done_once_however_machines_are_lost(seed: int) -> None:
    dice = random.Random(seed)
    dies = {(job, f"a{number}") for job in range(12) for number in range(3) if dice.random() < 0.15}
    found: dict[int, str] = {}

    def do(job: int, run: RunOn) -> str:
        if (job, run.args[0].name) in dies:
            raise Lost("gone")
        return run.args[0].name

    def done(number: int, result: str) -> None:
        assert number not in found
        found[number] = result

    fleet = [Machine(f"a{number}", ()) for number in range(3)]
    carry_out(range(12), fleet, do, done=done)
    assert sorted(found) == list(range(12))


def test_three_nodes_take_a_third_of_the_time() -> None:
    def seconds(count: int) -> float:
        began = time.monotonic()
        fleet = [Machine(f"a{number}", ()) for number in range(count)]
        carry_out(range(12), fleet, lambda job, run: time.sleep(0.1), done=lambda *_: None)
        return time.monotonic() - began

    assert seconds(1) > 2.5 * seconds(3)


def test_one_job_goes_to_another_machine_if_the_first_is_lost_and_no_further() -> None:
    fleet = [Machine(f"a{number}", ()) for number in range(4)]
    asked: list[str] = []

    def do(run: RunOn, dies: int) -> list[str]:
        asked.append(run.args[0].name)
        if len(asked) <= dies:
            raise Lost("gone")
        return [run.args[0].name]

    assert carry_out_one(fleet, lambda run: do(run, 1)) == ["a1"]
    asked.clear()
    with pytest.raises(Died, match="lost with a0, a1: gone"):
        carry_out_one(fleet, lambda run: do(run, 4))


# Which machine is slow


def sessions(
    slowed: float, seed: int, turns: int = 8, machines: int = 3, noise: float = 0.02
) -> Sequence[str]:
    """Names of machines called slow; the first one is slowed."""
    from laptime.verbs.doctor.fleet import _comparison, beside_others

    dice = random.Random(seed)
    shared = [dice.gauss(0, 0.1) for _ in range(turns)]
    times = {
        f"m{number}": [
            math.exp(drift + dice.gauss(0, noise)) * (1 + slowed * (number == 0)) for drift in shared
        ]
        for number in range(machines)
    }
    effects = beside_others(times)
    return [
        name
        for name, effect in effects.items()
        if _comparison(name, "compute", effect, machines).word == "slower"
    ]


@pytest.mark.parametrize("machines", [2, 3, 8])
def test_no_equal_machine_is_called_slow(machines: int) -> None:
    assert sum(bool(sessions(0.0, seed, machines=machines)) for seed in range(200)) <= 2


@pytest.mark.parametrize("machines", [2, 3, 8])
def test_a_machine_that_is_slowed_by_a_tenth_is_named(machines: int) -> None:
    named = [sessions(0.1, seed, machines=machines) for seed in range(200)]
    assert sum(each == ["m0"] for each in named) >= 190


def slow_links(bandwidth: float, seed: int, machines: int, turns: int = 8, noise: float = 0.02) -> set[str]:
    """Links called slow; `m0 - m1` has this share of the bandwidth of the others."""
    from laptime.analysis.visits import BETWEEN
    from laptime.probes.link import SIZES
    from laptime.verbs.doctor.fleet import compare

    dice, cases = random.Random(seed), []
    for pair in combinations(range(machines), 2):
        name = BETWEEN.join(f"m{number}" for number in pair)
        own = [math.exp(dice.gauss(0, noise)) for _ in range(turns)]  # what a visit's messages share
        for size in SIZES:
            time = 25e-6 + size / 1e10 / (bandwidth if pair == (0, 1) else 1.0)
            times = [time * each * math.exp(dice.gauss(0, noise)) for each in own]
            series = Series(metric=LATENCY, samples=times, regime="isolated")
            axes: dict[str, Axis] = {"machine": name, "speed": f"{size} B", "bytes": size, "hardware": "one"}
            cases.append(Case(key=f"{name}/{size} B", target="", axes=axes, series=[series]))
    return {each.candidate for each in compare(cases) if each.word == "slower"}


@pytest.mark.parametrize("machines", [3, 4, 6])
def test_no_equal_link_is_called_slow(machines: int) -> None:
    assert sum(bool(slow_links(1.0, seed, machines)) for seed in range(200)) <= 2


@pytest.mark.parametrize("machines", [3, 4, 6])
@pytest.mark.parametrize(("bandwidth", "least"), [(0.5, 200), (0.9, 190)])
def test_a_link_with_less_bandwidth_is_the_one_that_is_named(
    machines: int, bandwidth: float, least: int
) -> None:
    named = [slow_links(bandwidth, seed, machines) for seed in range(200)]
    assert named.count({"m0 - m1"}) >= least


@pytest.mark.slow
def test_ctrl_c_leaves_no_node_behind(tmp_path: Path) -> None:
    env = {**os.environ, "LAPTIME_HOME": str(tmp_path)}
    head = subprocess.Popen(
        [sys.executable, "-m", "laptime", "doctor", "--on", "local:2"],
        env=env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    time.sleep(6.0)
    head.send_signal(signal.SIGINT)
    assert head.wait(40) == 130
    assert head.stderr is not None
    head.stderr.close()
    mine = subprocess.run(["pgrep", "-f", "laptime.apps.node bench"], capture_output=True, text=True).stdout
    homes = [Path(f"/proc/{pid}/environ") for pid in mine.split()]
    assert not [each for each in homes if each.exists() and str(tmp_path).encode() in each.read_bytes()]
