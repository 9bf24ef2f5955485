from __future__ import annotations

from typing import Any

import pytest

from fixtures.runs import case, single
from laptime.analysis.architecture import architecture, same_models
from laptime.records.case import Case
from laptime.records.check import Finding

B0 = 5_288_548.0


def model(
    target: str,
    backend: str = "torch",
    *,
    counter: str = "torch",
    batch: int = 1,
    complete: bool = True,
    **sizes: float,
) -> Case:
    tags = {
        "every": "params/all",
        "trainable": "params/trainable",
        "buffers": "buffers/all",
        "flops": "flops",
    }
    series = [single(tags[name], "1", value) for name, value in sizes.items()]
    axes: dict[str, Any] = {"batch": batch} | ({"backend": backend} if backend != "torch" else {})
    return case(
        *series, target=target, axes=axes, details={"count": {"counter": counter, "complete": complete}}
    )


TORCH = model("torchvision:efficientnet_b0", every=B0, trainable=B0, buffers=42_065, flops=7.7e8)


def told(*others: Case) -> Finding:
    (found,) = same_models([TORCH, *others])
    return found


@pytest.mark.parametrize(
    "target", ["keras:EfficientNetB0", "timm:efficientnet_b0", "torchvision:efficientnet_b0"]
)
def test_spelling_makes_no_other_architecture(target: str) -> None:
    assert architecture(target) == "efficientnetb0"


@pytest.mark.parametrize("target", ["model.py:build", "pkg:build", "null:noop", "model.onnx"])
def test_what_is_the_users_own_is_an_architecture_of_its_own(target: str) -> None:
    assert architecture(target) == target


def test_running_statistics_that_one_framework_counts_make_no_other_model() -> None:
    keras = model(
        "keras:EfficientNetB0", "tensorflow", every=B0 + 42_023, trainable=B0, flops=7.9e8, counter="tf"
    )
    found = told(keras)
    assert found.kind == "model/same"
    assert "5,288,548 parameters" in found.sentence
    assert "+2.6 %" in found.sentence


def test_other_parameters_are_another_model() -> None:
    found = told(model("keras:EfficientNetB0", "tensorflow", every=6e6, trainable=5.9e6, flops=7.7e8))
    assert found.kind == "model/differs"
    assert "5,900,000 parameters against 5,288,548 (+12 %)" in found.sentence


def test_other_flops_of_one_counter_are_another_model() -> None:
    assert told(model("timm:efficientnet_b0", every=B0, trainable=B0, flops=9e8)).kind == "model/differs"


def test_other_flops_of_two_counters_are_no_proof_and_the_counters_are_named() -> None:
    found = told(model("keras:EfficientNetB0", "tensorflow", every=B0, flops=9e8, counter="the profiler"))
    assert found.kind == "model/same"
    assert all(counter in found.sentence for counter in ("the profiler", "torch"))


def test_incomplete_flops_prove_neither_the_same_nor_another_model() -> None:
    for flops in (7.7e8, 9e8):
        found = told(model("timm:efficientnet_b0", every=B0, flops=flops, complete=False))
        assert found.kind == "model/same", "the parameters are equal"
        assert f"least {flops / 1e6:.0f} MFLOPs" in found.sentence


def test_flops_are_compared_by_item() -> None:
    found = told(model("timm:efficientnet_b0", every=B0, flops=8 * 7.7e8, batch=8))
    assert found.kind == "model/same"
    assert "FLOPs an item" in found.sentence


def test_one_framework_alone_and_twins_say_nothing() -> None:
    assert same_models([TORCH, TORCH, model("torchvision:resnet18", every=1e7)]) == []


def test_what_is_not_told_is_not_guessed() -> None:
    found = told(model("torchvision:efficientnet_b0", "openvino", flops=7.7e8))
    assert found.kind == "model/same"
    assert "parameters not" in found.sentence
    found = told(model("torchvision:efficientnet_b0", "openvino", flops=9e8, counter="openvino"))
    assert found.kind == "model/unknown"
    assert "not clear" in found.sentence
    assert same_models([TORCH, model("torchvision:efficientnet_b0", "openvino")]) == []
