"""`--option` and `--shape`: read, given to the backends that know them, told in the key of a case."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.kit import registry, typed
from laptime.kit.errors import UsageError
from laptime.records.plan import BenchRequest, Variant
from laptime.verbs.bench.planning import axes_of, plan


@pytest.fixture(autouse=True)
def _all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("onnxruntime", "openvino"):
        monkeypatch.setattr(registry.load("backends", name), "available", lambda: {"a": "1"})


MODEL = str(Path(__file__).parents[2] / "contract" / "small.onnx")


def test_values_of_an_option_are_listed() -> None:
    assert typed.settings(["hint=latency,throughput", "streams = 2"]) == {
        "hint": ["latency", "throughput"],
        "streams": ["2"],
    }


def test_sizes_have_an_x_between_them() -> None:
    assert typed.shapes(["image=3x224x224", "length=128"]) == {
        "image": [3, 224, 224],
        "length": [128],
    }


@pytest.mark.parametrize("text", ["image", "=3", "image=", "image=3xx4", "image=0", "image=3x-1", "image=a"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as told:
        typed.shapes([text])
    assert told.value.next


def test_values_of_options_are_variants_of_the_backends_that_know_them() -> None:
    request = BenchRequest(
        targets=[MODEL],
        backends=["onnxruntime", "openvino"],
        options={"hint": ["latency", "throughput"], "session.intra_op.allow_spinning": ["0"]},
    )
    found = [(each.backend, each.options) for each in plan(request).variants]
    assert found == [
        ("onnxruntime", {"session.intra_op.allow_spinning": "0"}),
        ("openvino", {"hint": "latency"}),
        ("openvino", {"hint": "throughput"}),
    ]


def test_an_option_that_no_backend_knows_is_refused_with_the_nearest() -> None:
    request = BenchRequest(targets=[MODEL], options={"optimisation": ["basic"]})
    with pytest.raises(UsageError, match="'optimisation'") as told:
        plan(request)
    assert "--option optimization=basic?" in told.value.next


def test_options_and_shapes_are_axes_of_a_case() -> None:
    options = {"hint": "latency", "shape": {"x": [3, 8]}, "again": 2}
    axes = axes_of(
        Variant(target=MODEL, backend="openvino", options=options), 4, device="cpu", held={"float32": 1}
    )
    assert (axes["hint"], axes["shape"], axes["again"], axes["batch"]) == ("latency", "x=3x8", 2, 4)
