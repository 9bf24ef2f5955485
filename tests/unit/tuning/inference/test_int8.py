"""int8: its error on a known linear layer, its class, and a calibration that knows nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


from fixtures import onnx_files
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls, record
from laptime.records.tuning import Gate
from laptime.tuning.inference import arm_process, changes
from laptime.tuning.inference.draft import Draft, NoDraft
from laptime.tuning.inference.runtimes import onnxruntime
from laptime.tuning.inference.sameness import sameness
from laptime.tuning.inference.survey import instructions

LEVELS = 127 if {"avx512_vnni", "avx_vnni", "amx_int8"} & set(instructions()) else 63
Array = np.ndarray[Any, Any]


def session(path: Path) -> Callable[..., Array]:
    import onnxruntime

    loaded = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = loaded.get_inputs()[0].name

    def run(inputs: Array) -> Array:
        outputs: list[Array] = loaded.run(None, {name: inputs})
        return outputs[0]

    return run


def dynamic(file: Path, folder: Path) -> Callable[..., Array]:
    place = folder / "dynamic"
    place.mkdir()
    onnxruntime.write_dynamic_int8(Draft(None, [], [True], None, folder / "none", file=file), place)
    assert [each.name for each in place.iterdir()] == ["model.onnx"]
    return session(place / "model.onnx")


def quantised(file: Path, calibration: Array, folder: Path) -> Callable[..., Array]:
    calls = folder / "calibration.npz"
    RecordedCalls([RecordedCall(len(calibration), [calibration], [])]).save(calls)
    draft = Draft(None, [], [True], None, calls, form="onnx_int8", file=file)
    place = folder / "int8"
    place.mkdir()
    onnxruntime.write_int8(draft, place)
    assert [each.name for each in place.iterdir()] == ["model.onnx"]
    return session(place / "model.onnx")


def linear(path: Path, weights: Array, bias: Array) -> Path:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", weights.shape[1]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", weights.shape[0]])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_the_error_of_a_linear_layer_is_within_the_analytic_bound(tmp_path: Path) -> None:
    """Half a step of each factor: |error| <= sum |x| dw + |w| dx + dw dx, and half a step of the output."""
    draw = np.random.default_rng(0)
    weights = draw.standard_normal((16, 64)).astype(np.float32)
    bias = draw.standard_normal(16).astype(np.float32)
    inputs = draw.standard_normal((200, 64)).astype(np.float32)
    file = linear(tmp_path / "linear.onnx", weights, bias)
    exact = inputs.astype(np.float64) @ weights.T.astype(np.float64) + bias
    error = np.abs(quantised(file, inputs, tmp_path)(inputs) - exact)
    dx = (inputs.max() - inputs.min()) / 255 / 2
    dy = (exact.max() - exact.min()) / 255 / 2
    dw = np.abs(weights).max(axis=1) / LEVELS / 2
    bound = np.abs(inputs).sum(1)[:, None] * dw + np.abs(weights).sum(1) * dx + 64 * dw * dx + dy + dw * dx
    assert (error <= 1.001 * bound).all()
    assert error.max() > 0.01  # it is quantised
    assert error.mean() > 0.02 * bound.mean()  # and the bound is not so wide that anything is within it


def test_ranges_of_each_call_need_no_calibration(tmp_path: Path) -> None:
    """The same bound, with the range of this call, at any scale; outputs stay in float32."""
    draw = np.random.default_rng(0)
    weights = draw.standard_normal((16, 64)).astype(np.float32)
    bias = draw.standard_normal(16).astype(np.float32)
    run = dynamic(linear(tmp_path / "linear.onnx", weights, bias), tmp_path)
    for scale in (1, 100):
        inputs = (scale * draw.standard_normal((200, 64))).astype(np.float32)
        error = np.abs(run(inputs) - (inputs.astype(np.float64) @ weights.T.astype(np.float64) + bias))
        dx = (inputs.max() - inputs.min()) / 255 / 2
        dw = np.abs(weights).max(axis=1) / LEVELS / 2
        bound = np.abs(inputs).sum(1)[:, None] * dw + np.abs(weights).sum(1) * dx + 64 * dw * dx
        assert (error <= 1.001 * bound).all()
        assert error.max() > 0.01 * scale  # it is quantised


def test_a_model_without_products_is_refused_by_name(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [value("x", TensorProto.FLOAT, ["n", 4])],
        [value("y", TensorProto.FLOAT, ["n", 4])],
    )
    file = tmp_path / "relu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(file))
    with pytest.raises(NoDraft, match="matrix products"):
        dynamic(file, tmp_path)


def gate(tmp_path: Path, calibration: Callable[[Array], Array]) -> Gate:
    """Of the small convolutional model, whose held-out inputs are like those of the measurement."""
    file = onnx_files.save(tmp_path / "net.onnx")
    inputs = np.random.default_rng(1).standard_normal((8, 3, 8, 8)).astype(np.float32)
    original = session(file)
    recorded = record(lambda given: [original(given[0])], lambda size: [inputs[:size]], [8, 1])
    tuned = quantised(file, calibration(inputs), tmp_path)
    answer = arm_process.outputs(tuned, [call.inputs for call in recorded.calls], str(tmp_path / "o.npz"))
    return sameness(recorded, tmp_path / "o.npz", answer, numerics="precision", precision="int8")[0]


def test_int8_is_sound_where_it_was_calibrated_on_the_inputs(tmp_path: Path) -> None:
    assert gate(tmp_path, lambda inputs: inputs).word == "passed"


@pytest.mark.parametrize("value", [0.0, 0.01])
def test_int8_calibrated_on_constant_inputs_is_refused(value: float, tmp_path: Path) -> None:
    refused = gate(tmp_path, lambda inputs: np.full_like(inputs, value))
    assert refused.word == "failed", refused
    assert next(check.name for check in refused.checks if check.outcome == "broken") == "outputs"


def test_int8_is_never_called_reassociated() -> None:
    names = [name for name in changes.names() if "int8" in name]
    assert len(names) == 5
    for name in names:
        assert changes.load(name).numerics == "precision"


def test_operators_that_int8_spoils_stay_in_float32(tmp_path: Path) -> None:
    """A channel 1,000 times the others counts for nothing, and in one scale for all the others are lost."""
    pytest.importorskip("nncf")
    openvino = pytest.importorskip("openvino")
    from laptime.tuning.inference.runtimes import openvino as runtime

    draw = np.random.default_rng(0)
    weights = [draw.standard_normal((16, 16)).astype(np.float32) / 4 for _ in range(4)]
    weights[2][:, 0] *= 1000
    weights[3][0] = 0
    file = products(tmp_path / "spoilt.onnx", weights)
    inputs = draw.standard_normal((64, 16)).astype(np.float32)
    exact: Any = inputs
    for at, each in enumerate(weights):
        exact = np.maximum(exact @ each, 0) if at < 3 else exact @ each
    calls = tmp_path / "calibration.npz"
    RecordedCalls([RecordedCall(64, [inputs], [exact])]).save(calls)
    place = tmp_path / "int8"
    place.mkdir()
    runtime.write_int8(Draft(None, [], [True], None, calls, file=file), place)
    model = openvino.Core().read_model(place / "model.xml")
    compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    error = compiled([inputs]).to_tuple()[0] - exact
    assert np.sqrt((error**2).mean() / (exact**2).mean()) <= runtime.DROP
    kinds = [node.get_type_name() for node in model.get_ops()]
    assert "FakeQuantize" in kinds  # the other products are still in int8


def products(file: Path, weights: list[Array]) -> Path:
    """Matrix products one after the other, the negative parts cut off between them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    value, nodes, last = helper.make_tensor_value_info, [], "x"
    for at in range(len(weights)):
        nodes.append(helper.make_node("MatMul", [last, f"w{at}"], [f"h{at}"]))
        nodes.append(helper.make_node("Relu", [f"h{at}"], [f"r{at}"]))
        last = f"r{at}"
    nodes.pop()
    nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        nodes,
        "products",
        [value("x", TensorProto.FLOAT, ["n", 16])],
        [value("y", TensorProto.FLOAT, ["n", 16])],
        [numpy_helper.from_array(each, f"w{at}") for at, each in enumerate(weights)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(file))
    return file
