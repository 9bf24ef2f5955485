"""A mask of dropout depends on the seed, not on the memory format."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_mask_is_that_of_the_contiguous_tensor(dtype: str, inplace: bool) -> None:
    import torch

    from laptime.tuning.trial.numerics import model_variants

    values = torch.randn(2, 8, 5, 5).to(getattr(torch, dtype))
    layer = torch.nn.Dropout(0.4, inplace)

    def dropped(memory_format: torch.memory_format) -> torch.Tensor:
        torch.manual_seed(0)
        return layer(values.clone(memory_format=memory_format))

    as_it_is = dropped(torch.contiguous_format)
    assert not torch.equal(dropped(torch.channels_last), as_it_is)
    undo = model_variants.independent_of_layout()
    assert torch.equal(dropped(torch.contiguous_format), as_it_is)
    kept = dropped(torch.channels_last)
    assert torch.equal(kept, as_it_is)
    assert kept.is_contiguous(memory_format=torch.channels_last)
    layer.eval()
    assert torch.equal(dropped(torch.channels_last), values)
    undo()
    layer.train()
    assert not torch.equal(dropped(torch.channels_last), as_it_is)


def images_with_dropout() -> None:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    rows = TensorDataset(torch.randn(32, 3, 16, 16), torch.randint(0, 4, (32,)))
    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(8 * 7 * 7, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for inputs, labels in DataLoader(rows, batch_size=8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


def test_channels_last_before_dropout_passes_its_gate(tmp_path: Path) -> None:
    from fixtures.numerics_captures import CapturedBaseline
    from laptime.tuning.gates.verdict import judge

    base = CapturedBaseline(tmp_path, images_with_dropout, steps=2)
    gate = judge(["reassociated"], base.against("channels_last"), again=base.twice, perturbed=base.perturbed)
    assert gate.word == "passed", gate.reason
