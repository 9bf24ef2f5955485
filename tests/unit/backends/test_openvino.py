"""OpenVINO: files, hints, dtypes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openvino")
pytest.importorskip("onnx")

import numpy as np
import openvino

from fixtures import onnx_files
from laptime.backends import openvino as backend
from laptime.backends._onnx.model import FileModel
from laptime.kit.errors import TargetError, Unavailable, UsageError
from laptime.records.plan import Variant
from laptime.testing import check_backend


def opened(target: object, **more: Any) -> FileModel:
    return backend.open(Variant(target=str(target), backend="openvino", **more))


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return onnx_files.save(tmp_path / "net.onnx")


@pytest.mark.parametrize("hint", ["latency", "throughput", "none"])
def test_every_hint_gives_the_same_outputs(net: Path, hint: str) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)
    expected = openvino.Core().compile_model(str(net), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]
    assert np.allclose(opened(net, options={"hint": hint}).outputs([x])[0], expected, atol=1e-5)


def test_the_backend_keeps_its_contract(net: Path) -> None:
    check_backend("openvino", target=str(net))


def test_xml_files_are_read(net: Path, tmp_path: Path) -> None:
    openvino.save_model(openvino.Core().read_model(str(net)), str(tmp_path / "net.xml"))
    model = opened(tmp_path / "net.xml")
    found = {each.metric.tag: each.samples[0] for each in model.count(2)[0]}
    assert found["flops"] == 2 * onnx_files.FLOPS
    assert model.check_outputs(2) == {"finite": True, "shape": "float32 (2, 5)"}


def test_recurrent_layers_are_counted(tmp_path: Path) -> None:
    model = opened(str(onnx_files.recurrent(tmp_path / "lstm.onnx")))
    series, receipt = model.count(5)
    assert {each.metric.tag: each.samples[0] for each in series}["macs"] == onnx_files.RECURRENT_MACS
    assert receipt["complete"], receipt


def test_parameters_and_flops_come_from_the_graph(net: Path) -> None:
    series, receipt = opened(net).count(3)
    found = {each.metric.tag: each.samples[0] for each in series}
    assert found["flops"] == 3 * onnx_files.FLOPS
    assert found["params/all"] == 4 * 27 + 20
    assert receipt["complete"]


def test_a_model_is_compiled_in_its_first_call(net: Path) -> None:
    model = opened(net)
    work = model.workload(2)
    assert model.compile_seconds(2) is None
    work.call()
    work.sync()
    taken = model.compile_seconds(2)
    assert taken is not None
    assert 0 < taken < 60
    work.call()
    assert model.compile_seconds(2) == taken


def test_throughput_keeps_several_requests_under_way(net: Path) -> None:
    model = opened(net, options={"hint": "throughput", "requests": "3"})
    work = model.workload(1)
    assert not work.synchronous
    for _ in range(20):
        work.call()
    work.sync()
    assert opened(net).workload(1).synchronous


def test_the_dtype_is_always_said_to_the_compiler(net: Path) -> None:
    assert opened(net).knobs()["openvino.INFERENCE_PRECISION_HINT"] == "f32"
    config = opened(net, threads=1, options={"streams": "1", "property.ENABLE_CPU_PINNING": "NO"}).knobs()
    assert config["openvino.INFERENCE_NUM_THREADS"] == 1
    assert config["openvino.ENABLE_CPU_PINNING"] == "NO"


def test_a_dtype_that_the_device_lacks_is_refused(net: Path) -> None:
    can = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if "BF16" in can:
        assert opened(net, dtype="bfloat16").check_outputs(1)["finite"]
    else:
        with pytest.raises(Unavailable, match="bfloat16"):
            opened(net, dtype="bfloat16")


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"options": {"hint": "latncy"}}, UsageError, "hint=latency"),
        ({"options": {"streams": "0"}}, UsageError, "streams"),
        ({"device": "cuda:0"}, Unavailable, "sees CPU"),
        ({"compile": "default"}, UsageError, "--compile"),
        ({"dtype": "float64"}, UsageError, "float32"),
    ],
)
def test_what_it_cannot_do_is_refused(
    net: Path, more: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as told:
        opened(net, **more)
    assert said in str(told.value)


def test_an_unknown_property_is_the_users_mistake(net: Path) -> None:
    model = opened(net, options={"property.NO_SUCH_THING": "1"})
    with pytest.raises(UsageError, match="not take") as told:
        model.workload(1).call()
    assert "NO_SUCH_THING" in told.value.why


@pytest.mark.parametrize("content", [b"", b"no graph at all"])
def test_a_file_that_is_no_graph_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd.onnx").write_bytes(content)
    with pytest.raises(TargetError, match=r"read .*odd\.onnx"):
        opened(tmp_path / "odd.onnx")


def test_open_sizes_say_which_shape_to_give(tmp_path: Path) -> None:
    lookup = onnx_files.tokens(tmp_path / "lookup.onnx")
    with pytest.raises(UsageError) as told:
        opened(lookup).workload(1)
    assert "--shape ids=128" in told.value.next
    model = opened(lookup, options={"shape": {"ids": [7]}})
    assert model.check_outputs(3)["shape"] == "float32 (3, 7, 2)"


def test_a_model_of_this_process_is_measured_with_given_inputs(net: Path) -> None:
    read = openvino.Core().read_model(str(net))
    variant = Variant(target="mine", backend="openvino")
    model = backend.open_object(read, np.ones((2, 3, 8, 8), np.float32), variant)
    model.workload(5).call()
    assert model.check_outputs(5)["shape"] == "float32 (5, 5)"
    with pytest.raises(UsageError, match=r"an openvino\.Model"):
        backend.open_object(print, None, variant)
