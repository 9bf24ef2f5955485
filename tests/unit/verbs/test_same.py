from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from laptime.kit import registry
from laptime.kit.errors import Died, TargetError, Unavailable
from laptime.launch import fresh_call
from laptime.verbs.bench import variants as verb
from laptime.verbs.bench.variants import same

KNOWN = {
    "torchvision": ["torchvision:efficientnet_b0", "torchvision:resnet18"],
    "timm": ["timm:efficientnet_b0", "timm:convnext_tiny"],
    "keras": ["keras:EfficientNetB0", "keras:ResNet50"],
}
INSTALLED = {"torch", "tensorflow", "onnxruntime"}
RUNS = {
    "torch": ("torchvision", "timm", "file"),
    "onnxruntime": ("torchvision", "timm", "onnx_file"),
    "tensorflow": ("keras",),
    "jax": ("file",),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Collections that need no framework; remembers which were read, and in which interpreter."""
    told: list[tuple[str, str]] = []

    def call(function: str, arguments: dict[str, str], *, timeout: float, python: str) -> list[str]:
        assert function == "laptime.targets:list_known"
        told.append((arguments["kind"], python))
        if arguments["kind"] not in KNOWN:
            raise Died("no answer")
        return KNOWN[arguments["kind"]]

    real = registry.load

    def load(room: str, name: str) -> Any:
        if room == "backends":
            return SimpleNamespace(available=lambda: {name: "1"} if name in INSTALLED else {})
        return real(room, name)

    monkeypatch.setattr(fresh_call, "call", call)
    monkeypatch.setattr(registry, "load", load)
    monkeypatch.setattr(
        verb,
        "fits",
        lambda recipe, backend: recipe.kind in RUNS.get(backend, ()) or recipe.backend == backend,
    )
    return told


def test_several_architectures_read_each_collection_once(asked: list[tuple[str, str]]) -> None:
    found = same("efficientnet_b0, ResNet50")
    assert found.targets == ["torchvision:efficientnet_b0", "keras:EfficientNetB0", "keras:ResNet50"]
    assert len(asked) == len(set(asked))


def test_each_of_several_architectures_has_to_be_known(asked: Any) -> None:
    with pytest.raises(TargetError, match="resnet5000"):
        same("efficientnet_b0,resnet5000")


@pytest.mark.parametrize("name", ["efficientnet_b0", "EfficientNetB0", "efficientnet-b0"])
def test_one_target_a_framework_its_own_collection_first_the_original_as_baseline(
    asked: Any, name: str
) -> None:
    found = same(name)
    assert found.targets == ["torchvision:efficientnet_b0", "keras:EfficientNetB0"]
    assert found.backends == ["tensorflow", "torch", "onnxruntime"]


def test_another_collection_of_a_framework_is_taken_where_its_own_does_not_know_the_name(asked: Any) -> None:
    assert same("convnext_tiny").targets == ["timm:convnext_tiny"]


def test_backends_that_were_asked_for_are_kept(asked: Any) -> None:
    assert same("efficientnet_b0", backends=["torch"]).backends == ["torch"]


def test_each_collection_is_read_in_the_interpreter_of_its_backend(asked: list[tuple[str, str]]) -> None:
    same("efficientnet_b0", python={"tensorflow": ".venv-tf/bin/python"})
    assert ("keras", ".venv-tf/bin/python") in asked
    assert ("torchvision", "") in asked


def test_a_framework_that_is_not_here_is_not_asked(
    asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.INSTALLED", {"torch", "onnxruntime"})
    assert same("efficientnet_b0").targets == ["torchvision:efficientnet_b0"]
    assert "keras" not in {kind for kind, _ in asked}


def test_with_nothing_to_compare_with_it_says_what_is_missing(
    asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.INSTALLED", {"torch"})
    with pytest.raises(Unavailable, match="only torch can") as caught:
        same("efficientnet_b0")
    assert "tensorflow" in caught.value.why


def test_an_unknown_name_gets_the_nearest(asked: Any) -> None:
    with pytest.raises(TargetError, match="'efficientnet_b00'") as caught:
        same("efficientnet_b00")
    assert "efficientnet" in caught.value.next.lower().replace("_", "")
