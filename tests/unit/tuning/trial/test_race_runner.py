"""Races of arms on a scripted loop with a scripted clock."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.instrument.steps import Stop
from laptime.tuning.trial import race_runner
from laptime.tuning.trial.messages import FILE, GO, TURNS, TrialPlan, TrialResult

MARK = [{"name": "mark"}]


class Loop:
    """A script's loop and its hooks: a step is `tick` seconds, twice with an arm on."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, **plan: Any) -> None:
        self.now = 0
        self.tick = 1.0
        patch.setattr(race_runner, "perf_counter_ns", lambda: self.now)
        self.folder = folder
        self.result = TrialResult()
        self.steps = SimpleNamespace(source="optimizer")
        self.device = SimpleNamespace(name="cpu", wait=lambda: None)
        self.refused: list[dict[str, str]] = []
        self.on: list[Any] = []
        self.switches: list[Any] = []
        self.accepts = True
        self.epoch_start = 0
        self.began = 0.0
        self.race = race_runner.RaceRunner(TrialPlan(folder=str(folder), **plan), self)

    def put_on(self, changes: Any) -> Any:
        self.switches.append(changes)
        if not self.accepts:
            self.refused.append({"name": "mark", "why": "no"})
            return []
        self.on = list(changes)
        return list(changes)

    def take_off(self, handle: Any) -> None:
        self.on = []

    @property
    def changes(self) -> Any:
        return SimpleNamespace(changes=self.on)

    def unscale(self, root: Any) -> Any:
        return root

    def stop(self) -> None:
        raise Stop

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)

    def step(self, *, ended: bool = True, begins: bool = True) -> None:
        """One step, then the boundary behind it."""
        self.race.fetch(None, lambda: [SimpleNamespace(shape=(8, 3))])
        self.wait(self.tick * (2 if self.on else 1))
        self.race.boundary(ended=ended, begins=begins)

    def run(self, most: int = 500) -> int:
        """Until the trial stops the script; steps that it took."""
        self.race.boundary(ended=False, begins=True)
        for taken in range(1, most):
            try:
                self.step()
            except Stop:
                return taken
        return most

    def blocks(self) -> list[dict[str, Any]]:
        path = self.folder / FILE
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_every_round_has_a_block_of_each_arm_in_an_order_that_the_plan_fixes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    orders: list[list[int]] = []
    for seed in (1, 1, 2):
        folder = tmp_path / str(len(orders))
        folder.mkdir()
        loop = Loop(monkeypatch, folder, arms=[[], MARK], rounds=20, order=seed, seconds=1e9)
        loop.run()
        orders.append([block["arm"] for block in loop.blocks()])
        rounds = [block["round"] for block in loop.blocks()]
        assert rounds == [each for each in range(20) for _ in range(2)]
        for block in loop.blocks():
            assert block["seconds"] == [2.0 if block["arm"] else 1.0] * 3
            assert block["samples"] == [8] * 3
    assert orders[0] == orders[1] != orders[2]
    assert {tuple(orders[0][at : at + 2]) for at in range(0, 40, 2)} == {(0, 1), (1, 0)}
    assert loop.result.ended == "stopped"


def test_steps_to_settle_and_after_a_switch_do_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loop = Loop(monkeypatch, tmp_path, settle=4, rounds=2, steps=3)
    assert loop.run() == 4 + 2 * 3
    assert loop.result.settled == 4
    assert loop.switches == [[]], "with one arm nothing is switched"
    (tmp_path / FILE).unlink()

    loop = Loop(monkeypatch, tmp_path, arms=[[], MARK], settle=4, resettle=1, rounds=6, steps=3)
    taken = loop.run()
    arms = [block["arm"] for block in loop.blocks()]
    switches = [now for now, before in zip(arms, [0, *arms], strict=False) if now != before]
    assert len(switches) >= 6, "the order is random"
    assert taken == 4 + 4 + (len(switches) - 1) * 1 + len(arms) * 3


def test_with_turns_each_block_waits_for_one_and_the_step_behind_it_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / TURNS)
    pipe = os.open(tmp_path / TURNS, os.O_RDWR)
    loop = Loop(monkeypatch, tmp_path, settle=2, resettle=1, steps=3, rounds=100, turns=True)
    try:
        os.write(pipe, 3 * GO + b"x")
        assert loop.run() == 2 + 2 * (1 + 3)
    finally:
        os.close(pipe)
    started, warm, *blocks = loop.blocks()
    assert started == warm == {**warm, "round": -1, "seconds": []}
    assert loop.began == 0.0, "the scripted clock stood still while it waited"
    assert [block["seconds"] for block in blocks] == [[1.0] * 3] * 2
    assert loop.result.ended == "stopped"


def test_what_lies_between_epochs_is_in_no_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loop = Loop(monkeypatch, tmp_path, settle=1, rounds=1, steps=4)
    loop.race.boundary(ended=False, begins=True)
    loop.step()
    loop.step(begins=False)
    loop.wait(60)
    loop.epoch_start = 500_000_000
    loop.race.boundary(ended=False, begins=True)
    loop.epoch_start = 0
    loop.step()
    loop.step(ended=False)  # evaluation was inside it
    loop.step()
    with pytest.raises(Stop):
        loop.step()
    assert loop.blocks()[0]["seconds"] == [1.0, 1.5, 1.0, 1.0], "workers were started for the second"
    assert loop.blocks()[0]["samples"] == [8] * 4


def test_with_an_accelerator_a_block_is_waited_for_and_divided(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loop = Loop(monkeypatch, tmp_path, settle=1, rounds=1, steps=4)
    waits: list[int] = []

    def wait() -> None:
        waits.append(loop.now)
        loop.wait(2)  # what the device is behind

    loop.device = SimpleNamespace(name="xpu", wait=wait)
    loop.run()
    assert loop.blocks()[0]["seconds"] == [(4 + 2) / 4] * 4
    assert len(waits) == 2, "and not in between"


def test_settling_goes_on_while_something_compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loop = Loop(monkeypatch, tmp_path, settle=2, rounds=1, steps=1)
    loop.race.boundary(ended=False, begins=True)
    for _ in range(5):
        loop.race._monitor.times += 1
        loop.step()
    loop.step()
    with pytest.raises(Stop):
        loop.step()
    assert loop.result.settled == 6
    assert len(loop.blocks()) == 1


def test_what_compiles_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loop = Loop(monkeypatch, tmp_path, settle=2)
    loop.race.boundary(ended=False, begins=True)
    for _ in range(2 + race_runner.MOST_COMPILING - 1):
        loop.race._monitor.times += 1
        loop.step()
    loop.race._monitor.times += 1
    with pytest.raises(Stop):
        loop.step()
    assert loop.result.ended == "recompiles"
    assert loop.result.settled == 2 + race_runner.MOST_COMPILING
    assert loop.blocks() == []


def test_a_file_tells_it_to_stop_at_the_next_boundary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loop = Loop(monkeypatch, tmp_path, settle=1, steps=10, rounds=100)
    loop.tick = 0.001
    loop.race.boundary(ended=False, begins=True)
    for _ in range(14):
        loop.step()
    assert len(loop.blocks()) == 1
    (tmp_path / "stop").touch()
    loop.wait(race_runner.STOP_CHECK / 1e9)
    with pytest.raises(Stop):
        loop.step()
    assert loop.result.ended == "stopped"
    assert len(loop.blocks()) == 1, "half a block is none"


def test_seconds_of_timing_end_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loop = Loop(monkeypatch, tmp_path, settle=5, steps=3, rounds=100, seconds=10.0)
    assert loop.run() == 5 + 12


def test_a_refused_arm_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loop = Loop(monkeypatch, tmp_path, arms=[MARK])
    loop.accepts = False
    loop.run()
    assert (loop.result.ended, loop.result.error) == ("refused", "no")
    assert loop.blocks() == []


def test_several_ranks_count_and_have_one_arm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(race_runner, "world", lambda: 2)
    (tmp_path / "stop").touch()
    loop = Loop(monkeypatch, tmp_path, arms=[[], MARK], settle=2, rounds=5, steps=3, seconds=1.0)
    assert loop.run() == 2 + 5 * 3
    assert {block["arm"] for block in loop.blocks()} == {0}
    assert loop.result.world == 2
    monkeypatch.setattr(race_runner, "rank", lambda: 1)
    (tmp_path / FILE).unlink()
    loop = Loop(monkeypatch, tmp_path, settle=2, rounds=5, steps=3)
    assert loop.run() == 2 + 5 * 3
    assert loop.blocks() == []


def test_a_better_source_of_steps_begins_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loop = Loop(monkeypatch, tmp_path, settle=3, rounds=1, steps=2)
    loop.steps.source = "forward"
    loop.race.boundary(ended=False, begins=True)
    for _ in range(4):
        loop.step()
    loop.steps.source = "optimizer"
    assert loop.run() == 3 + 2
    assert (loop.result.settled, loop.result.source) == (3, "optimizer")


def test_losses_are_those_of_whole_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Scalar(float):
        ndim = 0

        def detach(self) -> Scalar:
            return self

    loop = Loop(monkeypatch, tmp_path, settle=1, rounds=1, steps=2)
    loop.race.boundary(ended=False, begins=True)
    for step in range(2):
        loop.race.backward(Scalar(step), lambda: None)
        loop.race.backward(Scalar(10), lambda: None)
        loop.step()
    loop.race.backward(Scalar(2), lambda: None)
    loop.race.backward(Scalar(10), lambda: None)
    with pytest.raises(Stop):
        loop.step()
    assert loop.blocks()[0]["losses"] == [11.0, 12.0]


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (SimpleNamespace(shape=(5, 2)), 5),
        ([SimpleNamespace(shape=(4,)), SimpleNamespace(shape=(9,))], 4),
        ({"text": ["a"], "ids": SimpleNamespace(shape=(3, 7))}, 3),
        ((([SimpleNamespace(shape=(6, 1))],),), 6),
        (SimpleNamespace(shape=()), 1),
        ("words", 0),
        (None, 0),
    ],
)
def test_samples_are_the_leading_dimension_of_the_first_tensor(batch: Any, found: int) -> None:
    assert race_runner.samples(batch) == found
