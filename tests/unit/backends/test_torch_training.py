"""Training steps: they train, they are counted, and they leave inference as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laptime.backends import torch as backend
from laptime.kit.errors import LaptimeError, TargetError, UsageError
from laptime.records.plan import BenchRequest, Variant
from laptime.verbs.bench.planning import plan

pytestmark = pytest.mark.torch

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.5), nn.Linear(32, 4))
    def forward(self, x):
        return self.layers(x)

class OwnLoss(Net):
    def forward(self, x):
        return {"loss": self.layers(x).sum() * 0 + 42.0, "logits": self.layers(x)}

def build():
    return Net(), torch.randn(8, 16)

def own_loss():
    return OwnLoss(), torch.randn(8, 16)

def convolutions():
    layers = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1, groups=32, stride=2), nn.Flatten(),
        nn.Linear(32 * 16, 4),
    )
    return layers, torch.randn(2, 3, 8, 8)

def detached():
    net = Net()
    return lambda x: net(x).detach(), torch.randn(8, 16)

def frozen():
    return Net().requires_grad_(False), torch.randn(8, 16)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / f"net_{tmp_path.name}.py"
    path.write_text(MODEL, encoding="utf-8")
    return path


def opened(place: Path, name: str = "build", **given: Any) -> Any:
    return backend.open(Variant(**{"target": f"{place}:{name}", "train": "sgd", "device": "cpu"} | given))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_call_is_a_step_that_changes_weights_a_little(place: Path, optimizer: str, dtype: str) -> None:
    import torch

    model = opened(place, train=optimizer, dtype=dtype)
    work = model.workload(4)
    (net,) = model.modules()
    before = {name: value.clone() for name, value in net.named_parameters()}
    assert net.training
    with model.scope():
        losses = [float(work.call()) for _ in range(3)]
    after = dict(net.named_parameters())
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert all(torch.allclose(before[name], after[name], atol=1e-4) for name in before)
    assert all(value.dtype == torch.float32 for value in after.values())
    assert all(0 < loss < 10 for loss in losses)
    model.close()


def test_the_facts_name_optimizer_loss_and_precision(place: Path) -> None:
    told = opened(place, train="adamw", dtype="bfloat16").facts()["training"]
    assert told["optimizer"] == "AdamW"
    assert told["settings"]["lr"] == 1e-6
    assert told["precision"] == "autocast to bfloat16, weights in float32"
    assert "cross-entropy" in told["loss"]


def test_flops_of_a_step_are_counted_backward_pass_and_all(place: Path) -> None:
    model = opened(place)
    series, receipt = model.count(4)
    counted = {each.metric.tag: each.samples[0] for each in series}
    forward = 2 * 4 * (16 * 32 + 32 * 4)
    # The first layer's input needs no gradient: its product is left out.
    assert counted["flops"] == 3 * forward - 2 * 4 * 16 * 32
    assert counted["params/trainable"] == 16 * 32 + 32 + 2 * 32 + 32 * 4 + 4
    assert receipt["step"] == "zero gradients, forward, loss, backward, optimizer"


def test_groups_of_a_convolution_count_in_its_gradients(place: Path) -> None:
    series, receipt = opened(place, "convolutions").count(2)
    counted = {each.metric.tag: each.samples[0] for each in series}
    first, grouped, last = (2 * 2 * n for n in (64 * 32 * 3 * 9, 16 * 32 * 9, 32 * 16 * 4))
    assert counted["flops"] == 2 * first + 3 * grouped + 3 * last
    assert receipt["doubtful"] == []


def test_a_loss_of_the_models_own_is_taken(place: Path) -> None:
    model = opened(place, "own_loss")
    assert model.check_outputs(2) == {"finite": True, "shape": "loss 42"}


@pytest.mark.parametrize("name", ["frozen", "detached"])
def test_what_cannot_be_trained_is_refused_in_three_lines(place: Path, name: str) -> None:
    with pytest.raises(LaptimeError) as caught:
        opened(place, name).workload(2).call()
    assert "train" in caught.value.what
    assert caught.value.why
    assert caught.value.next


def test_a_detection_model_is_refused() -> None:
    with pytest.raises(TargetError, match="made-up data"):
        backend.open(Variant(target="torchvision:ssdlite320_mobilenet_v3_large", train="sgd"))


def test_an_object_of_this_process_keeps_its_weights() -> None:
    with pytest.raises(UsageError, match="be trained"):
        backend.open_object(len, None, Variant(target="x", train="sgd"))


def test_only_backends_that_train_are_asked_to() -> None:
    with pytest.raises(UsageError, match="null backend"):
        plan(BenchRequest(targets=["null:noop"], train="sgd"))
    with pytest.raises(UsageError, match="'adm'"):
        plan(BenchRequest(targets=["null:noop"], train="adm"))


def test_the_same_target_is_still_measured_in_inference(place: Path) -> None:
    import torch

    model = opened(place, train="")
    (net,) = model.modules()
    assert net.training  # as the function gives it
    with model.scope():
        assert torch.is_inference(model.workload(4).call())


@pytest.mark.parametrize(
    ("target", "parameters"),
    [
        ("laptime.suites.models.bert:base", 109_483_778),
        ("laptime.suites.models.gpt:small", 30_044_544),
    ],
)
def test_the_suites_own_models_are_as_large_as_published(target: str, parameters: int) -> None:
    model = backend.open(Variant(target=target, device="cpu"))
    assert sum(p.numel() for module in model.modules() for p in module.parameters()) == parameters
    assert "int64" in model.facts()["inputs"]["shapes"]
