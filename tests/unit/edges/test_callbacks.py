"""Callbacks in loops that call them as their libraries do; the libraries themselves are not needed."""

from __future__ import annotations

import time
from time import perf_counter
from types import SimpleNamespace as Fake
from typing import Any

import pytest

from laptime.callbacks import keras, lightning, transformers
from laptime.edges import exports
from laptime.edges.callbacks import SETTLING, StepClock

STEPS = SETTLING + 10


class Logger:
    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []

    def log_metrics(self, numbers: dict[str, float], *, step: int) -> None:
        self.logged.append(numbers)


def near(seconds: float) -> Any:
    """A nap is never shorter than asked, and on a busy machine longer: from it to ten times as long."""
    return pytest.approx(5.5 * seconds, abs=4.5 * seconds)


def test_lightning_gets_the_parts_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    logger, batch = Logger(), [Fake(shape=(8, 3))]
    trainer = Fake(log_every_n_steps=5, loggers=[logger], global_step=1)
    times = lightning.StepTimes()
    times.on_train_start(trainer, None)
    times.on_train_epoch_start(trainer, None)
    for index in range(STEPS):
        time.sleep(0.002)
        times.on_train_batch_start(trainer, None, batch, index)
        time.sleep(0.004)
        times.on_before_backward(trainer, None, None)
        time.sleep(0.008)
        times.on_after_backward(trainer, None)
        times.on_train_batch_end(trainer, None, None, batch, index)
    times.on_train_end(trainer, None)
    last = logger.logged[-1]
    assert last["laptime/data_s"] == near(0.002)
    assert last["laptime/forward_s"] == near(0.004)
    assert last["laptime/backward_s"] == near(0.008)
    parts = sum(last[f"laptime/{part}_s"] for part in ("data", "forward", "backward", "optimizer"))
    assert last["laptime/step_s"] == pytest.approx(parts)
    assert last["laptime/samples_per_s"] == pytest.approx(8 / last["laptime/step_s"])
    assert "samples/s (last 10 steps): data" in capsys.readouterr().out


def test_transformers_logs_hold_the_numbers_beside_the_loss() -> None:
    args = Fake(train_batch_size=4, gradient_accumulation_steps=2)
    times = transformers.StepTimes(show=False)
    times.on_train_begin(args, None, None)
    times.on_epoch_begin(args, None, None)
    for _ in range(STEPS):
        times.on_step_begin(args, None, None)
        time.sleep(0.004)
        times.on_pre_optimizer_step(args, None, None)
        times.on_step_end(args, None, None)
    logs: dict[str, Any] = {"loss": 1.0}
    times.on_log(args, None, None, logs=logs)
    assert logs["laptime/compute_s"] == near(0.004)
    assert logs["laptime/samples_per_s"] == pytest.approx(8 / logs["laptime/step_s"])
    evaluated: dict[str, Any] = {"eval_loss": 1.0}
    times.on_log(args, None, None, logs=evaluated)
    assert evaluated == {"eval_loss": 1.0}


def test_keras_epochs_hold_the_numbers() -> None:
    times = keras.StepTimes(batch_size=16, show=False)
    times.on_epoch_begin(0)
    for batch in range(STEPS):
        times.on_train_batch_begin(batch)
        time.sleep(0.003)
        times.on_train_batch_end(batch)
    logs: dict[str, Any] = {}
    times.on_epoch_end(0, logs)
    assert logs["laptime/compute_s"] == near(0.003)
    assert logs["laptime/samples_per_s"] == pytest.approx(16 / logs["laptime/step_s"])


def test_what_lies_between_epochs_is_no_part_of_a_step() -> None:
    clock = StepClock()
    for _ in range(STEPS):
        time.sleep(0.01)
        clock.begin()
        clock.end("work")
    assert clock.numbers()["laptime/step_s"] < 0.005


def test_the_first_steps_do_not_count() -> None:
    clock = StepClock()
    for _ in range(SETTLING):
        clock.end("work")
    assert clock.numbers() == {}
    assert "too few" in clock.sentence()


def test_a_step_costs_far_less_than_one_per_cent_of_ten_milliseconds() -> None:
    clock, best = StepClock(), 1.0
    for _ in range(20):
        began = perf_counter()
        for _ in range(100):
            for part in ("data", "forward", "backward"):
                clock.mark(part)
            clock.end("optimizer", 8)
        best = min(best, (perf_counter() - began) / 100)
    assert best < 100e-6


class Taken(list[exports.Record]):
    """An export that keeps what it gets; `full` says after how many records it breaks."""

    full = 1000

    def write(self, record: exports.Record) -> None:
        if len(self) >= self.full:
            raise OSError("disk full")
        self.append(record)

    def close(self) -> str:
        return "see taken"


def trained(monkeypatch: pytest.MonkeyPatch, taken: Taken, **options: Any) -> dict[str, Any]:
    """Two epochs of the Keras callback with this export; the logs of the last one."""
    from laptime.edges import callbacks as shared

    monkeypatch.setattr(shared, "opened", lambda name, to, title: taken)
    times = keras.StepTimes(batch_size=16, export="prometheus", **options)
    logs: dict[str, Any] = {}
    for epoch in range(2):
        times.on_epoch_begin(epoch)
        for batch in range(STEPS):
            times.on_train_batch_begin(batch)
            times.on_train_batch_end(batch)
        times.on_epoch_end(epoch, logs := {})
    times.on_train_end()
    return logs


def test_a_loop_is_exported_live(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    taken = Taken()
    logs = trained(monkeypatch, taken)
    assert [record.step for record in taken] == [STEPS, 2 * STEPS]
    numbers = {point.tag: (point.value, point.unit) for point in taken[-1].points}
    assert numbers["step"] == (logs["laptime/step_s"], "s")
    assert numbers["throughput"] == (logs["laptime/samples_per_s"], "1/s")
    assert numbers["step/compute"] == (logs["laptime/compute_s"], "s")
    assert "see taken" in capsys.readouterr().out


def test_an_export_that_breaks_ends_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken()
    taken.full = 1
    with pytest.warns(UserWarning, match="disk full"):
        assert trained(monkeypatch, taken, show=False)["laptime/step_s"] > 0
    assert len(taken) == 1


def test_of_several_ranks_one_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    taken = Taken()
    trained(monkeypatch, taken, show=False)
    assert not taken
