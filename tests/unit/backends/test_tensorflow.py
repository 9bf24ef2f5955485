"""The TensorFlow backend: modes, inputs, counts, dtypes and errors, on small models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laptime.kit.errors import LaptimeError, OutOfMemory, TargetError, UsageError, UserCodeError
from laptime.kit.registry import load
from laptime.measure import protocol
from laptime.records.plan import Variant
from laptime.records.series import Series
from laptime.testing import check_backend

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

backend = load("backends", "tensorflow")

FILE = """
import keras
import tensorflow as tf

def dense():
    inputs = keras.Input((8,), name="x")
    hidden = keras.layers.Dense(16, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(4)(hidden))

def two_inputs():
    inputs = {"a": keras.Input((3,), name="a"), "b": keras.Input((5,), dtype="int32", name="b")}
    embedded = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(10, 3)(inputs["b"]))
    return keras.Model(inputs, {"sum": inputs["a"] + embedded, "a": inputs["a"] * 2})

def graph():
    weight = tf.Variable(tf.ones((8, 4)))
    @tf.function
    def call(x):
        return tf.matmul(x, weight)
    return call, tf.ones((2, 8))

def plain():
    return lambda x: x + 1, tf.ones((2, 8))

def frozen():
    model = dense()
    model.layers[1].trainable = False
    return model

def open_size():
    return keras.Sequential([keras.Input((None, None, 3), name="image"), keras.layers.Conv2D(4, 3)])

def subclassed():
    class Own(keras.Model):
        def call(self, x):
            return x
    return Own()

def refuses():
    return dense(), tf.ones((1, 7))

def half():
    weight = tf.ones((8, 4), tf.float16)
    return tf.function(lambda x: x @ weight), tf.ones((1, 8), tf.float16)

def nan():
    return tf.function(lambda x: x / 0.0 * 0.0), tf.ones((1, 8))
"""


@pytest.fixture
def user(tmp_path: Path) -> Any:
    """Opens a function of the user's file."""
    path = tmp_path / "user_models.py"
    path.write_text(FILE, encoding="utf-8")

    def opened(name: str, **fields: Any) -> Any:
        return backend.open(Variant(target=f"{path}:{name}", backend="tensorflow", device="cpu", **fields))

    return opened


def value(series: list[Series], tag: str) -> float:
    (found,) = [each.samples[0] for each in series if each.metric.tag == tag]
    return found


@pytest.mark.slow
def test_it_keeps_the_contract_with_a_model_of_keras() -> None:
    check_backend("tensorflow", target="keras:MobileNetV3Small")


@pytest.mark.parametrize("name", ["dense", "two_inputs", "graph", "plain"])
def test_it_keeps_the_contract_with_functions_of_the_user(name: str, tmp_path: Path) -> None:
    path = tmp_path / "contract_models.py"
    path.write_text(FILE, encoding="utf-8")
    check_backend("tensorflow", target=f"{path}:{name}", batches=(1, 2, 3))


@pytest.mark.parametrize(("name", "mode"), [("dense", "function"), ("graph", "function"), ("plain", "eager")])
def test_the_mode_that_nobody_asked_for_is_told(user: Any, name: str, mode: str) -> None:
    model = user(name)
    assert model.facts()["mode"] == model.knobs()["tf.mode"] == mode


def test_all_modes_give_the_same_outputs(user: Any) -> None:
    inputs = [np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)]
    outputs = {}
    for mode in ("function", "xla", "eager", "predict"):
        model = user("dense", options={"mode": mode})
        assert isinstance(model, protocol.GivesOutputs)
        (outputs[mode],) = model.outputs(inputs)
    for found in outputs.values():
        assert found.shape == (3, 4)
        np.testing.assert_allclose(found, outputs["eager"], atol=1e-5)


def test_compile_means_xla(user: Any) -> None:
    assert user("dense", compile="default").facts()["mode"] == "xla"
    with pytest.raises(UsageError, match="go together"):
        user("dense", compile="default", options={"mode": "eager"})


def test_every_batch_size_is_traced_once(user: Any) -> None:
    model = user("dense")
    for batch in (1, 2):
        work = model.workload(batch)
        for _ in range(3):
            assert work.call().shape == (batch, 4)
    assert model.compiles() == 2


def test_tracing_and_compiling_are_told_apart_from_the_first_call(user: Any) -> None:
    model = user("dense", options={"mode": "function"})
    assert model.compile_seconds(1) is None
    model.workload(1).call()
    traced = model.compile_seconds(1)
    assert traced > 0
    compiled = user("dense", options={"mode": "xla"})
    compiled.workload(1).call()
    assert compiled.compile_seconds(1) > compiled.workload(1).bound.trace_seconds
    eager = user("dense", options={"mode": "eager"})
    eager.workload(1).call()
    assert eager.compile_seconds(1) is None


def test_work_is_counted_in_every_mode(user: Any) -> None:
    for mode in ("function", "xla", "eager", "predict"):
        series, receipt = user("dense", options={"mode": mode}).count(2)
        assert value(series, "macs") == 2 * (8 * 16 + 16 * 4)
        assert value(series, "flops") == 2 * value(series, "macs")
        assert value(series, "params/all") == 8 * 16 + 16 + 16 * 4 + 4
        assert receipt["complete"], receipt


def test_variables_of_a_function_are_parameters(user: Any) -> None:
    series, _ = user("graph").count(1)
    assert value(series, "params/all") == 32
    assert value(series, "macs") == 32


def test_frozen_weights_are_parameters_and_no_buffers(user: Any) -> None:
    series, _ = user("frozen").count(1)
    assert value(series, "params/all") == 8 * 16 + 16 + 16 * 4 + 4
    assert value(series, "params/trainable") == 16 * 4 + 4
    assert value(series, "buffers/all") == 0


@pytest.mark.parametrize(
    ("function", "shapes", "macs"),
    [
        (lambda x, k: tf.nn.conv2d(x, k, 2, "SAME"), [(1, 8, 8, 3), (3, 3, 3, 5)], 4 * 4 * 5 * 27),
        (lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), [(1, 8, 8, 4), (3, 3, 2, 6)], 8 * 8 * 6 * 18),
        (
            lambda x, k: tf.nn.depthwise_conv2d(x, k, (1, 1, 1, 1), "SAME"),
            [(1, 8, 8, 3), (3, 3, 3, 2)],
            8 * 8 * 6 * 9,
        ),
        (
            lambda x, k: tf.nn.conv2d_transpose(x, k, (1, 16, 16, 5), 2, "SAME"),
            [(1, 8, 8, 3), (3, 3, 5, 3)],
            8 * 8 * 3 * 45,
        ),
        (lambda a, b: tf.matmul(a, b, transpose_a=True), [(7, 2), (7, 3)], 2 * 3 * 7),
        (lambda a, b: tf.matmul(a, b), [(4, 2, 7), (4, 7, 3)], 4 * 2 * 3 * 7),
        (lambda a, b: tf.einsum("bqhd,bkhd->bhqk", a, b), [(2, 5, 3, 4), (2, 6, 3, 4)], 2 * 5 * 6 * 3 * 4),
        (lambda a, b: tf.einsum("...ab,bc->...ac", a, b), [(2, 5, 3), (3, 4)], 2 * 5 * 3 * 4),
    ],
)
def test_formulas(function: Any, shapes: list[tuple[int, ...]], macs: int) -> None:
    given = tuple(tf.ones(shape) for shape in shapes)
    model = backend.open_object(tf.function(function), given, Variant(target="f", device="cpu"))
    series, receipt = model.count(model.own_batch() or 1)
    assert value(series, "macs") == macs
    assert receipt["complete"], receipt


def test_calls_of_other_graphs_are_looked_into(user: Any) -> None:
    inner = tf.function(lambda x: tf.matmul(x, tf.ones((8, 4))))
    model = backend.open_object(
        tf.function(lambda x: inner(x) + 1), tf.ones((2, 8)), Variant(target="f", device="cpu")
    )
    assert value(model.count(2)[0], "macs") == 64


@pytest.mark.parametrize("number", [1, 2])
def test_grouped_convolutions_which_keras_gives_to_xla_are_counted(number: int, tmp_path: Path) -> None:
    layers = [keras.layers.Conv2D(6, 3, groups=3, padding="same", use_bias=False) for _ in range(number)]
    made = keras.Sequential([keras.Input((8, 8, 6)), *layers])
    variant = Variant(target="made", backend="tensorflow", device="cpu")
    macs = number * 8 * 8 * 6 * 9 * 2
    series, receipt = backend.open_object(made, None, variant).count(1)
    assert value(series, "macs") == macs, receipt
    made.export(tmp_path / "exported", verbose=False)
    series, receipt = backend.open(
        Variant(target=f"{tmp_path}/exported/", backend="tensorflow", device="cpu")
    ).count(3)
    assert (value(series, "macs") == 3 * macs) == receipt["complete"], receipt
    assert receipt["complete"] or receipt["doubtful"] == ["Conv2D"]


def test_control_flow_of_python_in_a_function_is_traced_as_it_is() -> None:
    def branches(x: Any) -> Any:
        if tf.reduce_sum(x) > 0:
            return tf.matmul(x, x)
        return x

    variant = Variant(target="f", backend="tensorflow", device="cpu")
    _, receipt = backend.open_object(tf.function(branches), tf.ones((4, 4)), variant).count(4)
    assert not receipt["complete"]
    assert not tf.config.functions_run_eagerly()


def test_what_loops_do_is_doubtful() -> None:
    def loop(x: Any) -> Any:
        return tf.while_loop(lambda y: tf.reduce_sum(y) < 1e9, lambda y: (tf.matmul(y, y) + 1,), (x,))

    model = backend.open_object(tf.function(loop), tf.ones((4, 4)), Variant(target="f", device="cpu"))
    _, receipt = model.count(4)
    assert not receipt["complete"]
    assert any("While" in name for name in receipt["doubtful"])


def test_inputs_by_name_are_passed_as_one_mapping(user: Any) -> None:
    model = user("two_inputs")
    assert model.facts()["inputs"]["origin"] == "known"
    assert model.check_outputs(3) == {"finite": True, "shape": "{sum: float32 (3, 3), a: float32 (3, 3)}"}


def test_given_inputs_are_rebatched(user: Any) -> None:
    model = user("graph")
    assert model.facts()["inputs"]["origin"] == "given"
    assert model.workload(5).call().shape == (5, 4)


def test_open_sizes_want_a_shape(user: Any) -> None:
    with pytest.raises(TargetError) as caught:
        user("open_size")
    assert "--shape image=" in caught.value.next
    model = user("open_size", options={"shape": {"image": [16, 16, 3]}})
    assert model.workload(2).call().shape == (2, 14, 14, 4)


def test_a_model_that_tells_no_inputs_is_explained(user: Any) -> None:
    with pytest.raises(TargetError, match="without inputs"):
        user("subclassed")


def test_inputs_that_do_not_fit_are_the_users_error(user: Any) -> None:
    model = user("refuses")
    try:
        model.workload(1).call()
    except Exception as error:
        told = model.explain(error, 1)
    assert isinstance(told, UserCodeError)
    assert "float32 (1, 7)" in told.why


def test_exhausted_memory_is_told_from_other_errors(user: Any) -> None:
    model = user("plain")
    told = model.explain(tf.errors.ResourceExhaustedError(None, None, "{{node x}} OOM when allocating"), 8)
    assert isinstance(told, OutOfMemory)
    assert "OOM" in told.why


def test_outputs_that_are_no_numbers_are_seen(user: Any) -> None:
    assert user("nan").check_outputs(1)["finite"] is False


def test_a_keras_model_is_made_in_the_dtype_asked_for(user: Any) -> None:
    model = user("dense", dtype="bfloat16")
    assert model.facts()["dtypes"] == {"bfloat16": 4}
    assert model.workload(1).call().dtype == tf.bfloat16
    assert keras.config.dtype_policy().name == "float32"
    (output,) = model.outputs([np.ones((1, 8), np.float32)])
    assert output.dtype == np.float32


def test_a_dtype_that_a_model_does_not_have_is_refused(user: Any) -> None:
    with pytest.raises(UsageError) as caught:
        user("half")
    assert caught.value.next == "--dtype float16"
    assert user("half", dtype="float16").workload(1).call().dtype == tf.float16


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"options": {"mode": "fast"}}, "no mode 'fast'"),
        ({"compile": "max-autotune"}, "do not go together"),
        ({"dtype": "float23"}, "no dtype is called"),
        ({"options": {"inter_threads": "many"}}, "not a number of threads"),
        ({"threads": 77}, "cannot be chosen any more"),
    ],
)
def test_wrong_settings_are_refused(user: Any, fields: dict[str, Any], what: str) -> None:
    tf.ones(1)  # TensorFlow has started
    with pytest.raises(UsageError, match=what) as caught:
        user("dense", **fields)
    assert caught.value.why
    assert caught.value.next


def test_what_cannot_run_in_a_mode_is_refused(user: Any) -> None:
    with pytest.raises(UsageError, match="have predict"):
        user("graph", options={"mode": "predict"})


def test_models_of_other_frameworks_are_refused() -> None:
    with pytest.raises(LaptimeError) as caught:
        backend.open(Variant(target="null:noop", backend="tensorflow", device="cpu"))
    assert "--backend null" in caught.value.next


def test_a_saved_model_runs_by_its_signature(user: Any, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    user("dense")._program.call.export(folder, verbose=False)
    model = backend.open(Variant(target=f"{folder}/", backend="tensorflow", device="cpu"))
    assert model.facts()["signature"] == "serving_default"
    assert model.workload(3).call()
    series, receipt = model.count(3)
    assert value(series, "macs") == 3 * (8 * 16 + 16 * 4)
    assert value(series, "params/all") == 8 * 16 + 16 + 16 * 4 + 4
    assert receipt["complete"], receipt
    compiled = backend.open(
        Variant(target=f"saved_model:{folder}", backend="tensorflow", device="cpu", options={"mode": "xla"})
    )
    given = [np.ones((2, 8), np.float32)]
    np.testing.assert_allclose(compiled.outputs(given)[0], model.outputs(given)[0], atol=1e-5)
    with pytest.raises(UsageError, match="run eager"):
        backend.open(
            Variant(target=f"{folder}/", backend="tensorflow", device="cpu", options={"mode": "eager"})
        )
    with pytest.raises(TargetError, match="'serving'"):
        backend.open(Variant(target=f"saved_model:{folder}#serving", backend="tensorflow", device="cpu"))


def test_a_saved_model_without_signature_is_explained(tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path / "bare"))
    with pytest.raises(TargetError) as caught:
        backend.open(Variant(target=f"{tmp_path}/bare/", backend="tensorflow", device="cpu"))
    assert len(str(caught.value).splitlines()) == 3


def test_a_keras_file_is_loaded(user: Any, tmp_path: Path) -> None:
    saved = user("dense")._program.call
    saved.save(tmp_path / "saved.keras")
    model = backend.open(Variant(target=str(tmp_path / "saved.keras"), backend="tensorflow", device="cpu"))
    given = np.ones((1, 8), np.float32)
    np.testing.assert_allclose(model.outputs([given])[0], saved(given).numpy(), atol=1e-5)
    (tmp_path / "torn.keras").write_bytes(b"PK")
    with pytest.raises(UserCodeError, match="be loaded"):
        backend.open(Variant(target=str(tmp_path / "torn.keras"), backend="tensorflow", device="cpu"))


@pytest.mark.slow
def test_counts_of_efficientnet_are_those_of_the_paper() -> None:
    model = backend.open(Variant(target="keras:efficientnet_b0", backend="tensorflow", device="cpu"))
    series, receipt = model.count(1)
    assert value(series, "params/all") == 5_288_548
    assert value(series, "params/all") + value(series, "buffers/all") == 5_330_571
    assert value(series, "macs") == pytest.approx(0.386e9, rel=0.01)
    assert receipt["complete"], receipt


def test_what_is_given_is_what_is_measured() -> None:
    wish = Variant(target="f", device="cpu")
    model = backend.open_object(tf.function(lambda x: x + 1), tf.ones((8, 3)), wish)
    assert model.own_batch() == 8
    assert model.inputs_of(8)["shapes"] == "float32 (8, 3)"
    assert model.inputs_of(2)["resized"]
    apart = backend.open_object(lambda a, b: a[0] + b[0, :3], (tf.ones((8, 3)), tf.ones((9, 4))), wish)
    assert apart.own_batch() is None
    assert "float32 (8, 3), float32 (9, 4)" in apart.inputs_of(1)["shapes"]
    with pytest.raises(UsageError, match="batch 2"):
        apart.workload(2)
