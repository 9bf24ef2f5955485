from __future__ import annotations

import sys
from typing import Any

import pytest

from laptime.kit.errors import Unavailable, UsageError
from laptime.records.plan import BenchRequest
from laptime.targets import Program, Recipe
from laptime.verbs.bench import variants
from laptime.verbs.bench.planning import plan
from laptime.verbs.bench.variants import check_installed, select_backends


def recipe(target: str, kind: str, backend: str, **more: Any) -> Recipe:
    return Recipe(target=target, kind=kind, backend=backend, build=lambda batch: Program(call=float), **more)


EFFICIENT = recipe("torchvision:efficientnet_b0", "torchvision", "torch")
KERAS = recipe("keras:EfficientNetB0", "keras", "tensorflow")
KINDS = {
    "torch": ["torchvision", "file"],
    "onnxruntime": ["torchvision", "file", "onnx_file"],
    "tensorflow": ["keras"],
    "guest": [],
}


@pytest.fixture(autouse=True)
def _frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "_kinds", KINDS.__getitem__)


def names(recipes: list[Recipe], backends: list[str]) -> list[tuple[str, str]]:
    return [(each.target, backend) for each, backend in select_backends(recipes, backends).pairs]


def test_without_backends_each_target_implies_its_own() -> None:
    found = select_backends([EFFICIENT, KERAS], [])
    assert [backend for _, backend in found.pairs] == ["torch", "tensorflow"]
    assert found.left_out == []


def test_every_target_runs_with_the_backends_that_can_and_else_with_its_own() -> None:
    assert names([EFFICIENT, KERAS], ["torch", "onnxruntime"]) == [
        ("torchvision:efficientnet_b0", "torch"),
        ("torchvision:efficientnet_b0", "onnxruntime"),
        ("keras:EfficientNetB0", "tensorflow"),
    ]


def test_what_is_left_out_is_said() -> None:
    (note,) = select_backends([EFFICIENT, KERAS], ["torch", "onnxruntime"]).left_out
    assert "tensorflow only" in note.sentence


def test_a_backend_that_names_no_kinds_takes_any() -> None:
    assert names([EFFICIENT], ["guest"]) == [("torchvision:efficientnet_b0", "guest")]


def test_backends_that_can_run_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="run keras:EfficientNetB0") as caught:
        select_backends([KERAS], ["torch"])
    assert "torchvision and file" in caught.value.why
    assert caught.value.next == "--backend tensorflow"


def test_a_package_is_needed_only_where_it_is_loaded() -> None:
    missing = recipe("nobody:net", "nobody", "torch", packages=("nobody_has_this",))
    with pytest.raises(Unavailable, match="nobody_has_this"):
        check_installed([(missing, "torch")], {})
    check_installed([(missing, "torch")], {"torch": "elsewhere/python"})


def test_an_interpreter_goes_with_the_variants_of_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "_kinds", lambda name: [])
    request = BenchRequest(targets=["null:noop"], backends=["null", "torch"], python={"null": sys.executable})
    assert [(each.backend, each.python) for each in plan(request).variants] == [
        ("null", sys.executable),
        ("torch", ""),
    ]


def test_an_interpreter_that_is_not_there_is_refused_before_anything_is_measured() -> None:
    request = BenchRequest(targets=["null:noop"], python={"null": "no/such/python"})
    with pytest.raises(UsageError, match="no/such/python"):
        plan(request)
