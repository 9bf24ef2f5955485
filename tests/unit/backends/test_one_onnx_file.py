"""One `.onnx` file in ONNX Runtime and OpenVINO: one model, whose outputs are compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
pytest.importorskip("onnx")

import msgspec
import onnx
from onnx import helper

from fixtures import exports, onnx_files, runs
from laptime.backends import onnxruntime, openvino
from laptime.backends._onnx.inputs import dimension_names
from laptime.launch.worker import InProcessWorker, Worker, open_variant
from laptime.measure.checks import agreement
from laptime.measure.engine import Engine
from laptime.measure.recorded_calls import compare, record
from laptime.records.plan import BenchRequest, Variant
from laptime.verbs.bench.run import bench

BUILD = """
import torch

def build():
    body = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    return body, torch.randn(4, 6)
"""


def session(variant: Variant) -> Worker:
    return InProcessWorker(Engine(open_variant))


def _given(arrays: list[Any], batch: int) -> list[Any]:
    return arrays


def parameters(model: Any, batch: int) -> float:
    return next(each.samples[0] for each in model.count(batch)[0] if each.metric.tag == "params/all")


def test_both_frameworks_run_one_model_and_agree(tmp_path: Path) -> None:
    net = onnx_files.save(tmp_path / "net.onnx")
    request = BenchRequest(targets=[str(net)], backends=["onnxruntime", "openvino"], budget=0.3, processes=1)
    run = bench(request, open_session=session)
    (finding,) = [each for each in run.findings if each.kind.startswith("model/")]
    assert finding.kind == "model/same"
    assert "128 parameters" in finding.sentence
    (said,) = [check for check in run.cases[1].checks if check.name == "agreement"]
    assert said.outcome == "ok"
    assert "agree with" in said.sentence
    assert "batch 1, 2" in said.sentence


@pytest.mark.torch
@pytest.mark.parametrize("dynamo", [True, False])
def test_parameters_of_one_file_are_the_same_number_in_both(tmp_path: Path, dynamo: bool) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    body = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Hardswish(), torch.nn.ReLU6()
    ).eval()
    path = tmp_path / "body.onnx"
    torch.onnx.export(body, (torch.randn(2, 3, 8, 8),), str(path), dynamo=dynamo)
    counts = {
        parameters(backend.open(Variant(target=str(path), backend="x")), 2)
        for backend in (onnxruntime, openvino)
    }
    assert len(counts) == 1


def test_dimensions_keep_their_names_in_openvino(tmp_path: Path) -> None:
    path = onnx_files.tokens(tmp_path / "lookup.onnx")
    assert dimension_names(path) == {"ids": ["batch", "length"]}
    for backend in (onnxruntime, openvino):
        variant = Variant(target=str(path), backend="x", options={"shape": {"length": [7]}})
        assert backend.open(variant).check_outputs(3)["shape"] == "float32 (3, 7, 2)"


def test_files_without_names_have_none(tmp_path: Path) -> None:
    assert dimension_names(onnx_files.save(tmp_path / "net.onnx", dims=[2, 3, 8, 8])) == {"x": [""] * 4}
    (tmp_path / "odd.onnx").write_bytes(b"no graph at all")
    assert dimension_names(tmp_path / "odd.onnx") == {}
    (tmp_path / "empty.onnx").write_bytes(b"")
    assert dimension_names(tmp_path / "empty.onnx") == {}


def _scaled(path: Path) -> None:
    """Multiply the file's first output by 50."""
    model = onnx.load(str(path))
    name = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["before" if each == name else each for each in node.output]
    model.graph.initializer.append(helper.make_tensor("fifty", onnx.TensorProto.FLOAT, [], [50.0]))
    model.graph.node.append(helper.make_node("Mul", ["before", "fifty"], [name]))
    onnx.save(model, str(path))


def _broken_batch(path: Path) -> None:
    """Give every item the first one's output."""
    model = onnx.load(str(path))
    name = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["before" if each == name else each for each in node.output]
    for constant, values in (("zero", [0]), ("nothing", [0.0])):
        kind = onnx.TensorProto.INT64 if constant == "zero" else onnx.TensorProto.FLOAT
        model.graph.initializer.append(helper.make_tensor(constant, kind, [1], values))
    model.graph.node.extend(
        [
            helper.make_node("Gather", ["before", "zero"], ["first"], axis=0),
            helper.make_node("Mul", ["before", "nothing"], ["shape"]),
            helper.make_node("Add", ["shape", "first"], [name]),
        ]
    )
    onnx.save(model, str(path))


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("backend", [onnxruntime, openvino])
@pytest.mark.parametrize(("edit", "outcome"), [(None, "ok"), (_scaled, "fail"), (_broken_batch, "fail")])
def test_an_export_of_a_regressor_that_was_changed_is_invalid_at_batch_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Any, edit: Any, outcome: str
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.py").write_text(BUILD)
    variant = Variant(target=f"{tmp_path}/mine.py:build", backend="x")
    backend.open(variant)
    if edit is not None:
        (exported,) = (tmp_path / "cache").glob("onnx-*/model.onnx")
        edit(exported)
    facts = backend.open(variant).check_outputs(1)
    said = agreement.check(runs.case(details={"outputs": facts}), runs.environment(), {})
    assert said is not None
    assert said.outcome == outcome, said.sentence


@pytest.mark.slow
@pytest.mark.torch
def test_sound_exports_agree_in_both(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    models = [
        (exports.made(exports.Net), torch.randn(2, 3, 8, 8)),
        (exports.made(exports.Regressor), torch.randn(2, 6)),
        (exports.made(exports.Branches), torch.randn(2, 6)),
        (exports.made(exports.Recurrent), torch.randn(2, 12, 5)),
        (exports.made(exports.Tokens), torch.randint(0, 50, (2, 12))),
    ]
    for at, (model, given) in enumerate(models):
        path = tmp_path / f"{at}.onnx"
        torch.onnx.export(model, (given,), str(path), dynamo=True)
        original, inputs = exports.of(model), [given.numpy()]
        for backend in (onnxruntime, openvino):
            loaded = backend.open(Variant(target=str(path), backend="x"))
            recorded = record(original, partial(_given, inputs), [2])
            found = compare(loaded.outputs, recorded, against="the original", dtype="float32")
            details = {"outputs": {"against_torch": msgspec.to_builtins(found)}}
            said = agreement.check(runs.case(details=details), runs.environment(), {})
            assert said is not None
            assert said.outcome == "ok", (type(model).__name__, said.sentence)
