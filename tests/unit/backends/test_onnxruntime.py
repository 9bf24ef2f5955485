"""ONNX Runtime: files, what it refuses, and PyTorch targets exported on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import numpy as np
import onnxruntime

from fixtures import onnx_files
from laptime.backends import onnxruntime as backend
from laptime.backends._onnx.model import FileModel
from laptime.kit.errors import OutOfMemory, TargetError, Unavailable, UsageError, UserCodeError
from laptime.records.plan import Variant
from laptime.testing import check_backend

BUILD = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))

def build():
    return Net(), torch.randn(3, 3, 8, 8)
"""


def opened(target: object, **more: Any) -> FileModel:
    return backend.open(Variant(target=str(target), backend="onnxruntime", **more))


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return onnx_files.save(tmp_path / "net.onnx")


def test_the_backend_keeps_its_contract(net: Path) -> None:
    check_backend("onnxruntime", target=str(net))


def test_recurrent_layers_are_counted(tmp_path: Path) -> None:
    model = opened(str(onnx_files.recurrent(tmp_path / "lstm.onnx")))
    series, receipt = model.count(5)
    assert {each.metric.tag: each.samples[0] for each in series}["macs"] == onnx_files.RECURRENT_MACS
    assert receipt["complete"], receipt


def test_parameters_and_flops_come_from_the_graph(net: Path) -> None:
    model = opened(net)
    for batch in (1, 6):
        series, receipt = model.count(batch)
        found = {each.metric.tag: each.samples[0] for each in series}
        assert found["flops"] == onnx_files.FLOPS * batch
        assert found["macs"] == found["flops"] / 2
        assert found["params/all"] == 4 * 27 + 20
        assert receipt["complete"]


def test_a_file_for_one_batch_size_is_measured_with_it(tmp_path: Path, net: Path) -> None:
    fixed = opened(onnx_files.save(tmp_path / "four.onnx", dims=[4, 3, 8, 8]))
    assert fixed.own_batch() == 4
    assert fixed.inputs_of(4)["shapes"] == "x: float32 (4, 3, 8, 8)"
    assert opened(net).own_batch() == 1


def test_facts_tell_opset_dtypes_and_providers(net: Path) -> None:
    facts = opened(net).facts()
    assert facts["onnx"]["opset"] == {"ai.onnx": 17}
    assert facts["dtypes"] == {"float32": 2}
    assert facts["providers"] == ["CPUExecutionProvider"]
    assert "N(0, 1)" in facts["inputs"]["values"]


def test_outputs_are_those_of_a_session_of_ones_own(net: Path) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 8, 8)).astype(np.float32)
    (ours,) = opened(net).outputs([x])
    (theirs,) = onnxruntime.InferenceSession(str(net)).run(None, {"x": x})
    assert np.array_equal(ours, theirs)


def test_io_binding_gives_the_same_outputs(net: Path) -> None:
    x = np.ones((2, 3, 8, 8), np.float32)
    bound = opened(net, options={"binding": "on"})
    assert bound.knobs()["onnxruntime.io_binding"] is True
    assert np.array_equal(bound.outputs([x])[0], opened(net).outputs([x])[0])


def test_options_reach_the_session(net: Path) -> None:
    options = {
        "optimization": "basic",
        "execution": "parallel",
        "inter_threads": "2",
        "session.intra_op.allow_spinning": "0",
    }
    knobs = opened(net, options=options, threads=1).knobs()
    assert knobs["onnxruntime.graph_optimization_level"] == "ORT_ENABLE_BASIC"
    assert knobs["onnxruntime.execution_mode"] == "ORT_PARALLEL"
    assert knobs["onnxruntime.intra_op_num_threads"] == 1
    assert knobs["onnxruntime.inter_op_num_threads"] == 2


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"options": {"optimization": "bsic"}}, UsageError, "optimization=basic"),
        ({"options": {"inter_threads": "-1"}}, UsageError, "inter_threads"),
        ({"options": {"provider": "cpuu"}}, Unavailable, "provider=cpu"),
        ({"device": "cuda:0"}, Unavailable, "onnxruntime-gpu"),
        ({"compile": "default"}, UsageError, "--compile"),
        ({"channels_last": True}, UsageError, "--channels-last"),
        ({"train": "sgd"}, UsageError, "--train"),
        ({"dtype": "bfloat16"}, UsageError, "openvino"),
        ({"dtype": "float16"}, UsageError, "--dtype float32"),
    ],
)
def test_what_it_cannot_do_is_refused_in_three_lines(
    net: Path, more: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as told:
        opened(net, **more)
    assert said in str(told.value)
    assert told.value.why  # type: ignore[attr-defined]


def test_a_file_of_half_precision_runs_as_such(tmp_path: Path) -> None:
    half = onnx_files.save(tmp_path / "half.onnx", dtype=np.float16)
    model = opened(half, dtype="float16")
    assert model.check_outputs(2)["finite"] is True
    assert model.outputs([np.ones((1, 3, 8, 8), np.float32)])[0].dtype == np.float32


def test_an_opset_that_is_too_new_says_how_far_this_version_goes(tmp_path: Path) -> None:
    future = onnx_files.save(tmp_path / "future.onnx", opset=99, ir=10)
    with pytest.raises(TargetError) as told:
        opened(future)
    assert "opset 99" in told.value.what
    assert "up to" in told.value.why
    assert "install -U" in told.value.next


def test_a_format_that_is_too_new_says_so(tmp_path: Path) -> None:
    future = onnx_files.save(tmp_path / "future.onnx", ir=99)
    with pytest.raises(TargetError, match="version 99"):
        opened(future)


@pytest.mark.parametrize("content", [b"", b"hello world, this is no graph", b"\x00" * 64])
def test_a_file_that_is_no_graph_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.onnx").write_bytes(content)
    with pytest.raises((TargetError, UserCodeError)) as told:
        opened(tmp_path / "odd.onnx")
    assert "odd.onnx" in told.value.what


def test_open_sizes_say_which_shape_to_give(tmp_path: Path) -> None:
    lookup = onnx_files.tokens(tmp_path / "lookup.onnx")
    with pytest.raises(UsageError) as told:
        opened(lookup).workload(1)
    assert "--shape ids=128" in told.value.next
    model = opened(lookup, options={"shape": {"ids": [7]}})
    assert model.check_outputs(3)["shape"] == "float32 (3, 7, 2)"


def test_a_file_of_one_batch_size_does_no_other(tmp_path: Path) -> None:
    fixed = onnx_files.save(tmp_path / "fixed.onnx", dims=[2, 3, 8, 8])
    assert opened(fixed).check_outputs(2)["finite"]
    with pytest.raises(UsageError, match="batch 2"):
        opened(fixed).workload(1)


def test_infinite_outputs_are_seen(tmp_path: Path) -> None:
    model = opened(onnx_files.save(tmp_path / "huge.onnx", scale=1e30))
    assert model.check_outputs(1)["finite"] is False


def test_a_session_of_this_process_is_measured_with_given_inputs(net: Path) -> None:
    session = onnxruntime.InferenceSession(str(net))
    variant = Variant(target="mine", backend="onnxruntime")
    model = backend.open_object(session, np.ones((2, 3, 8, 8), np.float32), variant)
    model.workload(5).call()
    assert model.check_outputs(5)["shape"] == "float32 (5, 5)"
    with pytest.raises(UsageError, match=r"an onnxruntime\.InferenceSession"):
        backend.open_object(print, None, variant)


def test_memory_that_is_exhausted_is_told_apart(net: Path) -> None:
    model = opened(net)
    error = RuntimeError("Failed to allocate memory for requested buffer of size 123")
    assert isinstance(model.explain(error, 8), OutOfMemory)
    assert not isinstance(model.explain(RuntimeError("bad kernel"), 8), OutOfMemory)


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.torch
def test_a_torch_target_is_exported_once_and_agrees(
    tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript")
    monkeypatch.setenv("LAPTIME_CACHE", str(cached))
    (tmp_path / "mine.py").write_text(BUILD)
    first, again = opened(f"{tmp_path}/mine.py:build"), opened(f"{tmp_path}/mine.py:build")
    assert first.facts()["export"]["cached"] is False
    assert first.facts()["export"]["opset"] == 20
    assert again.facts()["export"]["cached"] is True
    assert (again.exported() or 99) < (first.exported() or 0)
    for batch in (1, 2, 5):  # any batch from one file
        seen = first.check_outputs(batch)
        assert seen["finite"] is True
        found = seen["against_torch"]
        assert found["outputs"][0]["largest"] < 1e-5
        assert found["outputs"][0]["top1"] == 1.0
        assert found["batches"] == sorted({1, 3, batch})
    counted = {each.metric.tag: each.samples[0] for each in first.count(4)[0]}
    assert counted["flops"] == 4 * onnx_files.FLOPS
    assert counted["params/trainable"] == 4 * 27 + 4 + 8 + 25
    (tmp_path / "mine.py").write_text(BUILD.replace("relu()", "sigmoid()"))
    assert opened(f"{tmp_path}/mine.py:build").facts()["export"]["cached"] is False
    json.dumps(first.facts())


@pytest.mark.slow
@pytest.mark.torch
def test_a_model_for_one_batch_size_is_exported_for_each_and_keywords_find_their_place(
    tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript")
    monkeypatch.setenv("LAPTIME_CACHE", str(cached))
    (tmp_path / "one.py").write_text(
        "import torch\n"
        "class One(torch.nn.Module):\n"
        "    def forward(self, x, scale):\n"
        "        return (x + 1 if x.shape[0] == 5 else x).sum(1, keepdim=True) * scale\n"
        "def build(): return One(), {'scale': torch.randn(5, 3), 'x': torch.randn(5, 4)}\n"
    )
    model = opened(f"{tmp_path}/one.py:build")
    assert model.own_batch() == model.facts()["export"]["batch"] == 5
    for batch in (5, 3):
        seen = model.check_outputs(batch)
        assert seen["shape"] == f"float32 ({batch}, 3)"
        assert seen["against_torch"]["outputs"][0]["absolute"] < 1e-5


@pytest.mark.slow
@pytest.mark.torch
def test_inputs_with_time_first_are_not_cut_along_time(
    tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript")
    monkeypatch.setenv("LAPTIME_CACHE", str(cached))
    (tmp_path / "steps.py").write_text(
        "import torch\n"
        "class Last(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.lstm = torch.nn.LSTM(6, 4)\n"
        "    def forward(self, x):\n"
        "        return self.lstm(x)[0][-1]\n"
        "def build(): return Last(), torch.randn(5, 3, 6)\n"
    )
    model = opened(f"{tmp_path}/steps.py:build")
    assert model.own_batch() == 3
    assert model.facts()["inputs"]["batch"] == 3
    for batch in (3, 2):
        assert model.inputs_of(batch)["shapes"].endswith(f"float32 (5, {batch}, 6)")
        assert model.check_outputs(batch)["against_torch"]["outputs"][0]["absolute"] < 1e-5
    assert "resized" in model.inputs_of(2)


@pytest.mark.slow
@pytest.mark.torch
def test_what_cannot_be_exported_is_told_with_the_reason(
    tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript")
    monkeypatch.setenv("LAPTIME_CACHE", str(cached))
    (tmp_path / "odd.py").write_text(
        "import torch\n"
        "class Odd(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x * (1 if float(x.sum()) > 0 else 2)\n"
        "def build(): return Odd(), torch.ones(2, 3)\n"
        "def broken(): raise ValueError('no weights')\n"
    )
    with pytest.raises(UserCodeError, match="export Odd") as told:
        opened(f"{tmp_path}/odd.py:build")
    assert told.value.why
    with pytest.raises(UserCodeError, match="broken raised") as told:
        opened(f"{tmp_path}/odd.py:broken")
    assert "no weights" in told.value.why
    with pytest.raises(UsageError, match="opset 7"):
        opened(f"{tmp_path}/odd.py:build", options={"opset": "7"})


def test_targets_of_other_frameworks_are_not_exported() -> None:
    with pytest.raises(UsageError, match="be exported"):
        opened("null:noop")
