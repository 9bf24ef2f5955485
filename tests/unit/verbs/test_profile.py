"""What `laptime profile` makes of a request and of what was observed; nothing is run here."""

from __future__ import annotations

import dataclasses
import random
import sys
from pathlib import Path

import pytest
from msgspec import structs

from fixtures import diagnosed, profiles
from laptime import rules
from laptime.instrument.messages import Ended, Observed, Sample
from laptime.kit.errors import ExitCode, TargetError, Unavailable, UsageError
from laptime.launch.script import Outcome, Program, resolve
from laptime.records.run import Subject
from laptime.reports.documents.profile.facts import cards
from laptime.verbs.profile import reconcile
from laptime.verbs.profile.run import failure_of, no_step

PHASES = {"data": 10, "forward": 20, "backward": 30, "optimizer": 5}


def sample(wall: int, host: int | None = None, **phases: int) -> Sample:
    return Sample(wall=wall, host=host or wall, cpu=2 * (host or wall), phases={**PHASES, **phases})


def observed(*walls: int, **changes: object) -> Observed:
    seen = Observed(rank=0, world=1, pid=1, source="optimizer", seen={"fetch": 9}, traces=["t"])
    seen.untraced = [sample(wall) for wall in walls]
    seen.traced = [sample(wall * 2) for wall in walls[:2]]
    for name, value in changes.items():
        setattr(seen, name, value)
    return seen


# The untraced step


def test_parts_sum_to_the_untraced_step() -> None:
    for seen in (
        observed(100, 103, 107),
        observed(65, 66),
        observed(100, untraced=[sample(50, host=100)] * 3),
    ):
        untraced = sorted(each.wall for each in seen.untraced)[len(seen.untraced) // 2]
        parts = reconcile.parts(seen, untraced)
        assert list(parts) == ["data", "forward", "backward", "optimizer", "other"]
        assert sum(parts.values()) == untraced
        assert all(part >= 0 for part in parts.values())


def test_the_untraced_step_stands_beside_the_traced_one() -> None:
    run = profiles.cpu_only()
    assert run.profile is not None
    walls = random.Random(0).sample(range(100, 120), 20)
    seen = observed(*walls, traced=[sample(240), sample(260)], notes=["a word"])
    seen.primitives = [
        {"kind": "matmul", "implementation": "brgemm", "shapes": "8x8", "calls": 2, "total_ns": 7}
    ]
    found = reconcile.reconcile(structs.replace(run.profile, reconciled=None, primitives=[]), seen)
    beside = found.reconciled
    assert beside is not None
    assert (beside.untraced_ns, beside.untraced_steps, beside.traced_ns) == (110, 20, 250)
    assert beside.slowdown == pytest.approx(250 / 110)
    assert beside.untraced_ci95_ns is not None
    assert beside.untraced_ci95_ns[0] <= 110 <= beside.untraced_ci95_ns[1]
    assert beside.loader_wait_ns == 10
    assert beside.threads_busy == pytest.approx(2.0)
    assert beside.note == "a word"
    assert [row.kind for row in found.primitives] == ["matmul"]


def test_the_verdict_the_finding_and_the_cards_tell_one_wait() -> None:
    """The traced step waited for another share of its time: it is the untraced one that they speak of."""
    run = profiles.cpu_only()
    assert run.profile is not None
    ms = 1_000_000
    slow = sample(100 * ms, data=60 * ms, forward=20 * ms, backward=10 * ms, optimizer=2 * ms)
    seen = observed(untraced=[slow] * 9, traced=[sample(250 * ms)] * 2)
    found = reconcile.reconcile(structs.replace(run.profile, workload=diagnosed.TRAINING), seen)
    assert found.verdict is not None
    assert (found.verdict.bound, found.verdict.share) == ("input", pytest.approx(0.6))
    assert "60 % of the 100 ms" in found.verdict.sentence
    assert found.reconciled is not None
    one_busy = structs.replace(found, reconciled=structs.replace(found.reconciled, threads_busy=1.0))
    (loader,) = [each for each in rules.diagnose(one_busy) if each.kind == "trace/num-workers"]
    assert "60.0 ms of each 100 ms untraced step (60 %)" in loader.sentence
    shown = {card.title: card for card in cards(found)}
    assert shown["waiting for data"].note == "60 % of a step"
    parts = ("waiting for data", "forward", "backward", "optimizer")
    assert sum(float(shown[name].note.split()[0]) for name in parts) <= 100


def test_no_loader_is_no_wait_of_zero() -> None:
    run = profiles.cpu_only()
    assert run.profile is not None
    found = reconcile.reconcile(run.profile, observed(100, 100, seen={"forward": 9}))
    assert found.reconciled is not None
    assert found.reconciled.loader_wait_ns is None


def test_uneven_steps_and_the_devices_clock_are_told() -> None:
    run = profiles.cpu_only()
    assert run.profile is not None
    found = reconcile.reconcile(run.profile, observed(100, 100, 900, clock="cuda events"))
    assert found.reconciled is not None
    assert "3.7 times" in found.verdict.sentence
    assert "cuda events" in found.reconciled.note


def test_a_loop_that_spends_its_time_between_steps_is_told_first() -> None:
    run = profiles.cpu_only()
    assert run.profile is not None
    rollouts = observed(*[100] * 9)
    rollouts.outside = 1800
    found = reconcile.reconcile(run.profile, rollouts)
    assert found.verdict.sentence.startswith(
        "The loop takes 3.0 times its median step, 67 % of it outside of steps. Of such a step: "
    )
    plain = reconcile.reconcile(run.profile, observed(*[100] * 9))
    assert not plain.verdict.sentence.startswith("The loop")


def test_workers_that_start_anew_for_each_epoch_limit_the_loop() -> None:
    ms = 30_000_000
    short, first = sample(3 * ms, data=ms), sample(8 * ms, data=6 * ms)
    seen = observed(untraced=[first, short, short, short] * 5, traced=[short] * 2)
    seen.outside, seen.workers, seen.firsts = 400 * ms, 380 * ms, [4, 8, 12, 16]
    traced = diagnosed.cpu(data=30)
    found = reconcile.reconcile(traced, seen)
    beside = found.reconciled
    assert beside is not None
    assert (beside.pauses, beside.outside_ns, beside.workers_wait_ns) == (4, 20 * ms, ms)
    assert beside.workers_ns == 20 * ms
    assert found.verdict is not None
    assert found.verdict.bound == "input"
    first_finding = rules.diagnose(found)[0]
    assert first_finding.kind == "trace/new-workers"
    assert first_finding.optimization == "persistent_workers"
    assert first_finding.gain == pytest.approx(0.6)
    evaluating = dataclasses.replace(seen, workers=0, outside_phases={"data": 10 * ms, "forward": 300 * ms})
    between = next(
        each
        for each in rules.diagnose(reconcile.reconcile(traced, evaluating))
        if each.kind == "trace/between-steps"
    )
    assert "run apart" in between.sentence
    assert "inference_mode" in between.change


def test_no_sentence_mixes_shares_of_the_traced_and_the_untraced_step() -> None:
    for name, profile in diagnosed.firing().items():
        slowed = structs.replace(
            profile,
            reconciled=structs.replace(
                diagnosed.beside_steps(profile, outside=0).reconciled, traced_ns=200, slowdown=2.0
            ),
        )
        for finding in rules.diagnose(slowed):
            words = finding.sentence
            assert not (" traced step" in words and "untraced step" in words), (name, words)
            assert "of each" not in words or "traced step" in words, (name, words)


def test_checks_say_what_cannot_be_trusted() -> None:
    def outcomes(seen: Observed) -> dict[str, str]:
        return {check.name: check.outcome for check in reconcile.checks(seen, None)}

    assert outcomes(observed(*[100] * 9)) == {"untraced": "ok"}
    assert outcomes(observed(100, 100)) == {"untraced": "warn"}
    assert outcomes(observed(*[100] * 9, traces=[])) == {"untraced": "ok", "traced": "fail"}


# What is run


def test_a_script_a_module_a_command_and_a_target_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("pass")
    command = tmp_path / "bin" / "launcher"
    command.parent.mkdir()
    command.write_text("#!/usr/bin/env python\npass")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent))

    def words(program: str, *arguments: str, module: bool = False) -> list[str]:
        return resolve(program, [*arguments], is_module=module).words

    assert words("train.py", "--lr", "1") == ["train.py", "--lr", "1"]
    assert words("pkg.train", "-v", module=True) == ["-m", "pkg.train", "-v"]
    assert words("launcher", "train.py") == [str(command), "train.py"]
    assert words("null:spin=1ms")[:3] == ["-m", "laptime.launch.target_loop", "null:spin=1ms"]
    with pytest.raises(UsageError, match="no arguments"):
        words("null:spin=1ms", "--batch", "8")
    with pytest.raises(TargetError) as missing:
        words("trian.py")
    assert "profile train.py" in missing.value.next
    with pytest.raises(TargetError):
        words("no-such-thing")


def test_the_script_is_known_by_its_contents(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("1")
    one = resolve(str(script), []).subject
    script.write_text("2")
    assert resolve(str(script), []).subject.sha256 != one.sha256 != ""


# How it ended

PROGRAM = Program(["train.py"], Subject(target="train.py"), sys.executable)


@pytest.mark.parametrize(
    ("outcome", "what", "code"),
    [
        (Outcome(ended=[Ended("raised", 1, error="ValueError: x")], status=1), "train.py failed", 4),
        (Outcome(ended=[Ended("exited", 3)], status=3), "train.py ended with status 3", 4),
        (Outcome(status=-11), "train.py was ended by SIGSEGV", 4),
        (Outcome(hung=60.0, status=130), "train.py was still running after 60 s", 4),
    ],
)
def test_a_script_that_failed_is_told(outcome: Outcome, what: str, code: int) -> None:
    failure = failure_of(PROGRAM, outcome)
    assert failure is not None
    assert (failure.what, failure.exit_code, bool(failure.next)) == (what, ExitCode(code), True)


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(ended=[Ended("stopped", 0)]),
        Outcome(ended=[Ended("returned", 0)]),
        Outcome(ended=[Ended("exited", 0)]),
        Outcome(interrupted=True, status=130, ended=[Ended("interrupted", 130)]),
        Outcome(ended=[Ended("stopped", 0)], status=-9),  # it would not end after all was observed
    ],
)
def test_a_script_that_did_not_fail_is_no_failure(outcome: Outcome) -> None:
    assert failure_of(PROGRAM, outcome) is None


def test_an_option_of_ours_behind_the_script_is_told_where_it_belongs() -> None:
    program = Program(["train.py", "-o", "x.html"], Subject(target="train.py"), sys.executable)
    failure = failure_of(program, Outcome(ended=[Ended("exited", 2)], status=2))
    assert failure is not None
    assert "profile -o" in failure.next


def test_torch_that_is_not_there_names_the_interpreter() -> None:
    error = Ended("raised", 1, error="ModuleNotFoundError: No module named 'torch'")
    failure = failure_of(PROGRAM, Outcome(ended=[error], status=1))
    assert isinstance(failure, Unavailable)
    assert sys.executable in failure.why


def test_a_script_without_steps_hears_what_came() -> None:
    seen = Observed(rank=0, world=1, pid=1, torch=True, seen={"forward": 1})
    assert "1 forward" in no_step(PROGRAM, Outcome(observed=[seen])).why
    seen.torch = False
    assert "not use" in no_step(PROGRAM, Outcome(observed=[seen])).what
