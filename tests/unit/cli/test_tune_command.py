"""`laptime tune` and `laptime verify`: what is asked, what is told, what the exit code says."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import tunings
from fixtures.tuning_parts import passed
from laptime.kit.errors import UserCodeError
from laptime.records.event import (
    Diagnosed,
    GainMeasured,
    Listener,
    Progress,
    RunFinished,
    RungDecided,
    RunStarted,
    TuningChanged,
)
from laptime.records.run import Run
from laptime.tuning.inference import subject as model_subject
from laptime.tuning.script import subject as tuning_verb

Laptime = Callable[..., Any]


@dataclass
class Fake:
    """Stands for a verb: tells a session made by hand, and remembers what it was asked."""

    run: Run
    requests: list[Any] = field(default_factory=list)

    def __call__(self, request: Any, emit: Listener) -> Run:
        self.requests.append(request)
        run = structs.replace(self.run, name=request.name)
        tuning = run.tuning
        assert tuning is not None
        emit(RunStarted(run))
        emit(Progress(0.1, 500.0, "diagnosing"))
        if tuning.before:
            emit(Diagnosed(tuning.before))
        for number, rung in enumerate(tuning.ladder, 1):
            emit(Progress(0.1 + 0.8 * number / len(tuning.ladder), 60.0, f"trying {rung.label}"))
            emit(RungDecided(rung))
        if tuning.baseline and tuning.final:
            emit(GainMeasured(tuning.baseline, tuning.final))
        emit(TuningChanged(tuning))
        emit(RunFinished(run.status, run.seconds))
        return run


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], Fake]:
    def install(run: Run) -> Fake:
        made = Fake(run)
        monkeypatch.setattr(tuning_verb, "tune", made)
        monkeypatch.setattr(tuning_verb, "verify", made)
        return made

    return install


def test_the_request_has_what_was_typed(laptime: Laptime, fake: Any, tmp_path: Path) -> None:
    told = fake(tunings.full())
    line = (
        "--budget 5m --steps 7 --allow algorithm --strict --goal memory --max-memory 8GB --certify --resume"
    )
    line += " --skip channels-last --step-by loader --timeout 2m --name mine --no-save --patch p.patch"
    ended = laptime("tune", *line.split(), "train.py", "--epochs", "3", "--json")
    assert ended.code == 0
    asked = told.requests[0]
    assert (asked.program, asked.arguments) == ("train.py", ["--epochs", "3", "--json"])
    assert (asked.budget, asked.timeout, asked.steps) == (300.0, 120.0, 7)
    assert (asked.allow, asked.strict, asked.goal) == (["algorithm"], True, "memory")
    assert (asked.max_memory, asked.certify, asked.resume) == (8_000_000_000, True, True)
    assert (asked.only, asked.skip) == ([], ["channels_last"])
    assert (asked.step_by, asked.name, asked.save, asked.patch) == ("loader", "mine", False, Path("p.patch"))
    assert asked.origins["budget"] == "flag"
    assert "dry_run" not in asked.origins


@pytest.mark.parametrize(
    ("line", "instances"),
    [
        ("", [1]),
        ("--goal throughput", []),
        ("--goal throughput --instances 2,4", [2, 4]),
        ("--goal latency", [1]),
    ],
)
def test_throughput_by_name_is_that_of_all_cpus(
    line: str, instances: list[int], laptime: Laptime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who names no goal gets one callable that is faster."""
    told = Fake(tunings.model())
    monkeypatch.setattr(model_subject, "tune_model", told)
    laptime("tune", *line.split(), "torchvision:resnet18", "--no-save")
    assert told.requests[0].instances == instances


def test_names_may_be_repeated_and_listed(laptime: Laptime, fake: Any, tmp_path: Path) -> None:
    Path("mine.py").write_text("")
    told = fake(tunings.full())
    line = "--no-save --with mine.py --only channels_last,mine --only channels-last"
    assert laptime("tune", *line.split(), "train.py").code == 0
    assert told.requests[0].only == ["channels_last", "mine"]
    assert told.requests[0].extra == ["mine.py"]


@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_an_unknown_name_gets_the_nearest_right_one(laptime: Laptime, fake: Any, option: str) -> None:
    told = fake(tunings.full())
    ended = laptime("tune", option, "chanels_last", "train.py")
    assert ended.code == 2
    assert "channels_last?" in ended.err
    assert told.requests == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            ["--only", "channels_last", "--skip", "channels_last", "t.py"],
            "is given to both --only and --skip",
        ),
        (["--max-memory", "lots", "t.py"], "--max-memory: 'lots' is not a size"),
        (["--budget", "0s", "t.py"], "not a duration"),
        (["--patch", "no/such/folder/p.patch", "t.py"], "cannot be written"),
        (["-o", "report.xyz", "t.py"], "there is no report format for .xyz"),
        ([], "SCRIPT.py"),
    ],
)
def test_wrong_use_costs_no_session(laptime: Laptime, fake: Any, line: list[str], said: str) -> None:
    told = fake(tunings.full())
    ended = laptime("tune", *line)
    assert ended.code == 2
    assert said in ended.err
    assert told.requests == []


def test_each_decision_is_one_line_on_stderr(laptime: Laptime, fake: Any) -> None:
    fake(tunings.full())
    ended = laptime("tune", "--no-save", "train.py")
    lines = ended.err.splitlines()
    tuning = tunings.full().tuning
    assert tuning is not None
    decided = [rung for rung in tuning.ladder if rung.verdict != "not tried"]
    assert len(lines) == len(decided) + 2
    assert lines[0].startswith("diagnosed: a step takes 3.40 s, bound by compute: forward and backward")
    assert "autocast_bf16: 1.74x [1.70, 1.78] faster, gate passed, kept" in lines
    assert "compile mode=default: 0.93x [0.90, 0.96] slower, gate passed: slower, and 48.2 s of" in ended.err
    assert lines[-1] == "measured again: 9.4 -> 21.7 samples/s"
    assert "2.31x [2.24, 2.38] faster" in ended.out
    assert "diagnosed" not in ended.out


def test_quiet_says_nothing_on_stderr(laptime: Laptime, fake: Any) -> None:
    fake(tunings.full())
    ended = laptime("tune", "-q", "--no-save", "train.py")
    assert ended.err == ""


def test_json_is_one_document_and_reports_are_written(laptime: Laptime, fake: Any) -> None:
    fake(tunings.full())
    ended = laptime("tune", "--json", "-o", "r.html", "-o", "r.md", "--no-save", "train.py")
    document = json.loads(ended.out)
    assert document["speedup"]["value"] == 2.31
    assert "2.31x" in Path("r.html").read_text()
    assert "2.31x" in Path("r.md").read_text()


def test_hostile_names_do_not_reach_the_terminal(laptime: Laptime, fake: Any) -> None:
    fake(tunings.hostile())
    ended = laptime("tune", "--no-save", "train.py")
    assert "\x1b" not in ended.err + ended.out


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (tunings.full, 0),
        (tunings.memory, 0),
        (tunings.dry_run, 0),
        (tunings.gate_failed, 1),
        (tunings.nothing, 5),
        (tunings.interrupted, 130),
        (lambda: changed(gate=structs.replace(passed(), word="undecided")), 3),
        (lambda: changed(speedup=None), 3),
        (lambda: changed(recipe=[], ladder=[], ended="budget"), 3),
        (lambda: changed(recipe=[], ended="budget"), 5),
        (lambda: changed(patch=structs.replace(full().patch, applies=False)), 1),
        (lambda: changed(patch=structs.replace(full().patch, same_losses=False)), 1),
        (lambda: changed(speedup=structs.replace(full().speedup, word="unclear")), 3),
        (lambda: changed(speedup=structs.replace(full().speedup, word="same")), 5),
        (lambda: changed(speedup=structs.replace(full().speedup, word="slower")), 1),
        (lambda: changed(convergence=structs.replace(full().convergence, word="fails")), 1),
    ],
)
def test_the_exit_code_is_the_outcome(laptime: Laptime, fake: Any, make: Any, code: int) -> None:
    fake(make())
    assert laptime("tune", "--no-save", "train.py").code == code


def full() -> Any:
    return tunings.full().tuning


def changed(**changes: Any) -> Run:
    return structs.replace(tunings.full(), tuning=structs.replace(full(), **changes))


def test_a_script_that_fails_is_exit_code_4(laptime: Laptime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(request: Any, heard: Any) -> Run:
        raise UserCodeError("train.py failed", why="ValueError: no data", next="python train.py")

    monkeypatch.setattr(tuning_verb, "tune", fail)
    ended = laptime("tune", "train.py")
    assert ended.code == 4
    assert "train.py" in ended.err.splitlines()[0]


def test_a_session_is_kept_and_found_again(
    laptime: Laptime, fake: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    fake(tunings.full())
    assert laptime("tune", "--name", "mine", "train.py").code == 0
    assert "2.31x [2.24, 2.38] faster" in laptime("show", "mine").out


def test_a_dry_run_is_not_kept(laptime: Laptime, fake: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    fake(tunings.dry_run())
    assert "Not saved" in laptime("tune", "--dry-run", "train.py").out
    assert laptime("show", "last").code != 0


def verified(make: Any = tunings.full, **changes: Any) -> Run:
    return structs.replace(make(), verb="verify", **changes)


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (verified(), 0),
        (verified(tuning=structs.replace(full(), speedup=None)), 3),
        (verified(tuning=structs.replace(full(), gate=structs.replace(full().gate, word="undecided"))), 3),
        (verified(tuning=structs.replace(full(), speedup=structs.replace(full().speedup, word="same"))), 1),
        (verified(tunings.gate_failed), 1),
        (verified(tunings.interrupted), 130),
    ],
)
def test_verify_exits_with_1_when_it_no_longer_holds(
    laptime: Laptime, fake: Any, run: Run, code: int
) -> None:
    told = fake(run)
    ended = laptime("verify", "--budget", "90s", "--no-save", "train.laptime.json")
    assert ended.code == code
    assert told.requests[0].recipe == Path("train.laptime.json")
    assert told.requests[0].budget == 90.0
    verdict, script = ended.out.splitlines()[:2]
    assert "train.py" in verdict + script + ended.out
    words = {0: "still holds: 2.31x", 1: "no longer holds: ", 3: "undecided  ", 130: "interrupted: "}
    assert verdict.startswith(words[code])


def test_an_option_of_ours_behind_the_script_is_noted_unless_the_script_knows_it(
    laptime: Laptime, fake: Any
) -> None:
    fake(tunings.full())
    Path("train.py").write_text('parser.add_argument("--name")\n')
    ended = laptime("tune", "--no-save", "train.py", "--name", "mine", "-o", "x.json", "--lr", "0.1")
    assert ended.err.count("note: ") == 1
    assert "note: -o" in ended.err


@pytest.mark.parametrize("goal", ["latency", "memory"])
def test_a_model_without_its_framework_says_how_to_get_it(
    laptime: Laptime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, goal: str
) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('there is none', name='torch')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    ended = laptime("tune", "--goal", goal, "torchvision:resnet18")
    what, why, next = ended.err.splitlines()[-3:]
    assert ended.code == 2
    assert what == "error: torch is not installed"
    assert sys.executable in why
    assert next.startswith("next:  pip install ")
    assert "laptime" not in next  # no package index has it
