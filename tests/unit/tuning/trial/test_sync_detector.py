"""What makes the host wait is found with its line; what does not, is not."""

from __future__ import annotations

import pytest

from laptime.tuning.trial.diagnosis.sync_detector import SyncDetector

pytestmark = pytest.mark.torch


def test_values_sizes_masks_and_prints_are_found_with_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    x = torch.arange(6.0)
    lint = SyncDetector()
    lint.enter()
    x.sum().item()
    float(x[0])
    if x[1] > 3:
        x += 1
    x.nonzero()
    x[x > 2]
    x.unique()
    print(x)
    x.cpu()
    x.tolist()
    (x * 2).relu().sum()
    lint.leave()
    lint.steps = 1
    found = [(each.line, each.detail) for each in lint.sites()]
    first = found[0][0]
    assert [(line - first, what) for line, what in found] == [
        (0, "item"),
        (1, "item"),
        (2, "item"),
        (4, "nonzero"),
        (5, "index by a mask"),
        (6, "unique"),
        (7, "print"),
        (8, "cpu"),
        (9, "tolist"),
    ]
    assert all(each.file == __file__ and each.count == 1.0 for each in lint.sites())
    assert capsys.readouterr().out.startswith("tensor(")


def test_a_training_step_without_waiting_has_none_and_nothing_is_left() -> None:
    import torch
    from torch import _tensor_str, nn

    before = _tensor_str._str
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    lint = SyncDetector()
    lint.enter()
    loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    lint.leave()
    assert lint.sites() == []
    loss.item()
    assert lint.sites() == []
    assert _tensor_str._str is before
    assert not lint.checkpointing
    assert not lint.halves


def test_the_loaders_own_work_does_not_count() -> None:
    import torch

    lint = SyncDetector()
    lint.enter()
    lint.muted = True
    torch.ones(1).item()
    lint.leave()
    assert lint.sites() == []


def test_values_of_the_host_do_not_count_with_an_accelerator() -> None:
    import torch

    lint = SyncDetector()
    lint.accelerator = True
    lint.enter()
    torch.ones(1).item()
    torch.ones(1).tolist()
    lint.leave()
    assert lint.sites() == []


def test_checkpointing_and_half_precision_are_seen() -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    lint = SyncDetector()
    lint.enter()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = checkpoint(layer, torch.randn(2, 4), use_reentrant=False)
    made.float().sum().backward()
    lint.leave()
    assert lint.checkpointing
    assert lint.halves


def test_the_share_of_time_that_could_be_fused_is_told() -> None:
    import torch

    def worked(run: object, *, accelerator: bool = False, optimizes: bool = False) -> dict[str, float]:
        lint = SyncDetector()
        lint.accelerator, lint.optimizes = accelerator, optimizes
        lint.enter()
        run()  # type: ignore[operator]
        lint.leave()
        lint.steps = 1
        return lint.operators()

    x = torch.rand(256, 256)
    chain = worked(lambda: (x.sigmoid() * x + x.abs()).sqrt())
    assert chain == {"count": 5, "fusable": 1.0}
    product = worked(lambda: x @ x)
    assert product["fusable"] < 0.5
    assert worked(lambda: x * x, accelerator=True) == {"count": 1}
    assert worked(lambda: x * x, optimizes=True) == {}
    assert SyncDetector().operators() == {}


@pytest.mark.parametrize("name", ["addmm", "mm", "convolution_backward", "max_pool2d_with_indices", "topk"])
def test_what_a_library_computes_is_not_fused(name: str) -> None:
    from laptime.tuning.trial.diagnosis.sync_detector import LIBRARY

    assert LIBRARY.search(name)


@pytest.mark.parametrize(
    "name", ["lgamma", "relu", "native_batch_norm", "_softmax", "mul", "threshold_backward"]
)
def test_what_can_be_fused_is_no_librarys(name: str) -> None:
    from laptime.tuning.trial.diagnosis.sync_detector import LIBRARY

    assert not LIBRARY.search(name)
