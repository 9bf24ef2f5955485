"""Steps are captured in loops with a structure of their own, and no change is on where none belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.numerics_captures import capture

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")]
BF16 = [{"name": "bf16_autocast", "options": {}}]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batches(batch: int = 4) -> Iterator[Any]:
    """Without end, in an order that no seed of the script fixes."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.linspace(-1, 1, 144).view(24, 6), torch.arange(24) % 3)
    while True:
        yield from DataLoader(data, batch_size=batch, shuffle=True)


def parts() -> tuple[Any, Any, Any]:
    import torch
    from torch import nn

    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3))
    torch.seed()
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), nn.functional.cross_entropy


def fetches_ahead(micro: int = 1) -> None:
    model, optimizer, loss_of = parts()
    source = batches()
    x, y = next(source)
    for _ in range(40):
        for _ in range(micro):
            loss = loss_of(model(x), y) / micro
            x, y = next(source)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def traces_first() -> None:
    import torch

    model, optimizer, loss_of = parts()
    traced = torch.jit.trace(model, torch.ones(1, 6))
    assert traced(torch.ones(1, 6)).dtype == torch.float32
    for (x, y), _ in zip(batches(), range(20), strict=False):
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()


def counts_first() -> None:
    """As counters of operations do: the model is called once, and what follows is set up."""
    import torch

    model, optimizer, loss_of = parts()
    assert model(torch.ones(1, 6)).dtype == torch.float32
    assert (model[0].weight @ torch.ones(6)).dtype == torch.float32
    fetched = batches()
    for _ in range(20):
        x, y = next(fetched)
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()


def closures() -> None:
    import torch

    model, _, loss_of = parts()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)
    for (x, y), _ in zip(batches(), range(20), strict=False):

        def closure() -> Any:
            optimizer.zero_grad()
            loss = loss_of(model(x), y)  # noqa: B023
            loss.backward()
            return loss

        optimizer.step(closure)


def everything() -> None:
    """Accumulation, clipping, averaged weights, a schedule by step, a scaler, checkpoints, validation."""
    import io

    import torch

    model, optimizer, loss_of = parts()
    average = torch.optim.swa_utils.AveragedModel(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step))
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for number, (x, y) in zip(range(60), batches(), strict=False):
        with torch.autocast("cpu", enabled=False):
            loss = loss_of(model(x), y) / 2
        scaler.scale(loss).backward()
        if number % 2 == 0:
            continue
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        average.update_parameters(model)
        optimizer.zero_grad()
        if number % 10 == 9:
            torch.save(model.state_dict(), io.BytesIO())
            with torch.no_grad():
                model(x)


@pytest.mark.parametrize(
    "main",
    [fetches_ahead, lambda: fetches_ahead(3), traces_first, counts_first, closures, everything],
    ids=["ahead", "ahead_micro", "traced", "counted", "closures", "everything"],
)
def test_its_steps_are_captured_with_and_without_a_change(main: Callable[[], None], tmp_path: Path) -> None:
    shared: dict[str, Any] = {"batches": str(tmp_path / "batches.pt"), "steps": 2}
    base = str(tmp_path / "base.pt")
    capture(main, tmp_path / "base", [], write=base, **shared)
    twice = capture(main, tmp_path / "twice", [], compare=base, **shared)
    assert twice.steps == 2
    assert all(row.equal for row in twice.totals)
    changed = capture(main, tmp_path / "changed", BF16, compare=base, **shared)
    assert (changed.steps, changed.refused, changed.notes) == (2, [], [])
    gradients = [row for row in changed.totals if row.group == "gradients"]
    assert len(gradients) == 2
    assert all(not row.equal and row.cosine is not None and row.cosine > 0.99 for row in gradients)
    assert capture(main, tmp_path / "exact", [], compare=base, double=True, **shared).steps == 2
