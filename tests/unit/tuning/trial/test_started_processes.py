"""Training in processes that a script starts is seen at its first step."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from laptime.tuning.trial.watched import FILE, StartedProcesses

pytestmark = pytest.mark.torch
forking = multiprocessing.get_context("fork")


def trains() -> None:
    import torch

    torch.set_num_threads(1)
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.grad = torch.ones(
        2
    )  # no backward pass: it fails in a fork of a process that has made one in threads
    optimizer.step()


def loads() -> None:
    pass


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Path]:
    started = StartedProcesses(str(tmp_path))
    original = multiprocessing.process.BaseProcess.start
    started.install()
    yield tmp_path
    started.undo()
    started.undo()
    assert multiprocessing.process.BaseProcess.start is original


@pytest.mark.parametrize(("target", "seen"), [(trains, True), (loads, False)])
def test_a_child_that_trains_says_so(watched: Path, target: object, seen: bool) -> None:
    process = forking.Process(target=target)  # type: ignore[arg-type]
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert (watched / FILE).exists() is seen


def test_workers_of_loaders_are_left_alone(watched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trains, "__module__", "torch.utils.data._utils.worker")
    process = forking.Process(target=trains)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert not (watched / FILE).exists()
