from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import laptime  # noqa: E402
from laptime.backends import jax as backend  # noqa: E402
from laptime.backends import null  # noqa: E402
from laptime.backends.jax import program  # noqa: E402
from laptime.backends.jax.model import JaxModel  # noqa: E402
from laptime.kit.errors import OutOfMemory, TargetError, Unavailable, UsageError, UserCodeError  # noqa: E402
from laptime.measure import passes  # noqa: E402
from laptime.measure.protocol import Pass  # noqa: E402
from laptime.records.plan import Variant  # noqa: E402
from laptime.testing import check_backend  # noqa: E402

Write = Callable[[str], str]
WEIGHTS, ITEMS = np.ones((16, 8), np.float32), np.ones((4, 16), np.float32)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file with a function `build` in it, as a target."""

    def file(body: str) -> str:
        path = tmp_path / f"model_{abs(hash(body))}.py"
        path.write_text(
            f"import jax\nimport jax.numpy as jnp\nimport numpy as np\n{body}\n", encoding="utf-8"
        )
        return f"{path}:build"

    return file


def product(weights: Any, items: Any) -> Any:
    return items @ weights["kernel"]


def adopted(subject: Any, given: Any, **more: Any) -> JaxModel:
    return backend.open_object(subject, given, Variant(target="mine", backend="jax", **more))


def series(model: JaxModel, batch: int) -> dict[str, float]:
    return {each.metric.tag: each.samples[0] for each in model.count(batch)[0]}


def test_it_keeps_the_contract_of_backends(write: Write) -> None:
    target = write("def build():\n    return lambda x: jnp.tanh(x @ x.T), np.ones((4, 16), np.float32)")
    check_backend("jax", target=target)


def test_a_function_is_compiled_once_for_each_batch_size() -> None:
    model = adopted(lambda items: items * 2, ITEMS)
    assert model.compiles() == 0
    assert model.compile_seconds(1) is None
    for batch in (1, 8):
        work = model.workload(batch)
        assert work.call().shape == (batch, 16)
        work.call()
    assert model.compiles() == 2
    assert (model.compile_seconds(8) or 0.0) > 0


def test_a_call_on_the_cpu_returns_with_its_result() -> None:
    work = adopted(product, ({"kernel": WEIGHTS}, ITEMS)).workload(4)
    assert work.synchronous
    work.call()
    assert work.call().is_ready()
    work.sync()


def test_items_are_repeated_and_parameters_are_not() -> None:
    model = adopted(product, ({"kernel": WEIGHTS}, ITEMS))
    assert model.workload(6).call().shape == (6, 8)
    assert model.workload(2).call().shape == (2, 8)
    assert model.facts()["inputs"]["batch"] == 4


def test_inputs_without_a_batch_cannot_get_another_one() -> None:
    with pytest.raises(UsageError, match="batch 2"):
        adopted(lambda x: x + 1, np.float32(1.0).reshape(())).workload(2)


def test_floats_are_cast_and_integers_are_not() -> None:
    model = adopted(
        lambda table, ids: table["all"][ids], ({"all": WEIGHTS}, np.zeros(4, np.int32)), dtype="bfloat16"
    )
    args, _ = model.workload(4)._inputs
    assert [str(each.dtype) for each in (args[1]["all"], args[2])] == ["bfloat16", "int32"]
    assert str(model.workload(4).call().dtype) == "bfloat16"


def test_flops_of_a_product_are_counted_with_a_receipt() -> None:
    found, receipt = adopted(product, ({"kernel": WEIGHTS}, ITEMS)).count(4)
    assert {each.metric.tag: each.samples[0] for each in found}["flops"] == 2 * 4 * 16 * 8
    assert "XLA" in receipt["counter"]
    assert "constants" in receipt["parameters"]


def test_an_output_that_is_not_finite_is_seen() -> None:
    assert adopted(lambda x: x / 0, ITEMS).check_outputs(4)["finite"] is False
    assert adopted(lambda x: x > 0, ITEMS).check_outputs(4)["finite"] is None


def test_a_callable_tree_has_its_arrays_as_parameters() -> None:
    model = adopted(jax.tree_util.Partial(product, {"kernel": jnp.asarray(WEIGHTS)}), ITEMS)
    assert model.facts()["kind"] == "pytree"
    assert series(model, 4)["params/all"] == 128
    np.testing.assert_allclose(model.workload(4).call(), ITEMS @ WEIGHTS)


def test_an_equinox_module_is_measured_in_inference_mode() -> None:
    equinox = pytest.importorskip("equinox")
    net = equinox.nn.Sequential([equinox.nn.Linear(16, 8, key=jax.random.key(0)), equinox.nn.Dropout(0.5)])
    model = adopted(equinox.filter_vmap(net), ITEMS)
    assert series(model, 4)["params/all"] == 16 * 8 + 8
    model.workload(4).call()  # dropout without a key would raise


def test_a_linen_module_is_initialised_from_the_seed() -> None:
    linen = pytest.importorskip("flax.linen")
    first, second = (adopted(linen.Dense(8), ITEMS, seed=7) for _ in range(2))
    assert first.facts()["kind"] == "flax.linen"
    assert series(first, 4)["params/all"] == 16 * 8 + 8
    np.testing.assert_array_equal(first.workload(4).call(), second.workload(4).call())


def test_an_nnx_module_is_not_changed() -> None:
    nnx = pytest.importorskip("flax.nnx")
    net = nnx.Sequential(nnx.Linear(16, 8, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(0)))
    model = adopted(net, ITEMS)
    assert model.facts()["kind"] == "flax.nnx"
    assert series(model, 4)["params/all"] >= 16 * 8 + 8
    assert model.check_outputs(4)["shape"] == "float32 (4, 8)"
    assert not net.layers[1].deterministic


def test_an_object_of_this_process_is_measured_by_the_backend_that_is_named() -> None:
    run = laptime.bench(lambda x: x @ x.T, ITEMS, backends=["jax"], batch=4, preset="quick", budget=0.2)
    (found,) = run.cases
    assert found.status == "ok", found.failure
    assert found.axes["backend"] == "jax"
    assert found.find("time/compile") is not None


def test_a_backend_that_does_not_wait_for_jax_is_found_out() -> None:
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, y: jnp.tanh(y @ y), x))
    items = jnp.ones((300, 300))
    slow(items).block_until_ready()
    found = {}
    for name, opened in (("null", null.open_object), ("jax", backend.open_object)):
        model = opened(slow, (items,), Variant(target="mine", backend=name))
        workload = model.workload(1 if name == "null" else 300)
        facts = passes.run(Pass(kind="outputs", batch=workload.batch), model, workload)
        found[name] = facts.details.outputs.pending
    assert found == {"null": True, "jax": False}


def test_a_function_may_take_the_batch_size(write: Write) -> None:
    target = write("def build(batch=1):\n    return lambda x: x + 1, np.ones((batch, 3), np.float32)")
    model = backend.open(Variant(target=target, backend="jax"))
    assert model.workload(5).call().shape == (5, 3)


def test_a_model_without_inputs_says_what_to_return(write: Write) -> None:
    with pytest.raises(TargetError, match="without inputs"):
        backend.open(Variant(target=write("def build():\n    return lambda x: x"), backend="jax"))


def test_a_model_of_another_framework_is_refused() -> None:
    with pytest.raises(TargetError, match="null:noop"):
        backend.open(Variant(target="null:noop", backend="jax"))


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"dtype": "flaot32"}, UsageError),
        ({"compile": "max-autotune"}, UsageError),
        ({"channels_last": True}, UsageError),
        ({"threads": 2}, UsageError),  # of a process that runs already
        ({"device": "cuda:9"}, Unavailable),
    ],
)
def test_what_jax_cannot_do_is_refused_in_three_lines(wish: dict[str, Any], error: type[UsageError]) -> None:
    with pytest.raises(error) as caught:
        adopted(product, ({"kernel": WEIGHTS}, ITEMS), **wish)
    assert caught.value.why
    assert caught.value.next


def test_what_a_call_raises_is_the_users_and_only_exhausted_memory_is_not() -> None:
    model = adopted(lambda x: x @ x, ITEMS)
    with pytest.raises(TypeError) as caught:
        model.workload(4).call()
    told = model.explain(caught.value, 4)
    assert isinstance(told, UserCodeError)
    assert not isinstance(told, OutOfMemory)
    exhausted = RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes")
    assert isinstance(model.explain(exhausted, 4), OutOfMemory)


def test_the_batch_is_that_of_arguments_and_not_of_what_lies_in_them() -> None:
    deep = {"a": np.ones((512, 512)), "b": np.ones((512, 3))}
    assert program.batch_of((deep, np.ones((4, 3)))) == 4
    assert program.batch_of({"x": np.ones((2, 3)), "y": np.ones(2)}) == 2
    assert program.batch_of(()) is None
    assert program.batch_of((np.ones((2, 3)), np.ones((9, 4)))) is None


def test_what_is_given_is_what_is_measured_and_nothing_is_cut_that_nobody_knows() -> None:
    model = adopted(product, ({"kernel": WEIGHTS}, ITEMS))
    assert model.own_batch() == 4
    assert model.inputs_of(4)["shapes"].endswith("float32 (4, 16)")
    assert model.inputs_of(2)["resized"]
    apart = adopted(lambda a, b: a.sum() + b.sum(), (np.ones((2, 3)), np.ones((9, 4))))
    assert apart.own_batch() is None
    assert (
        "float32 (2, 3)" in apart.inputs_of(1)["shapes"] or "float64 (2, 3)" in apart.inputs_of(1)["shapes"]
    )
    with pytest.raises(UsageError, match="batch 2") as caught:
        apart.workload(2)
    assert "first dimension" in caught.value.why


def test_loops_and_calls_of_libraries_make_the_count_incomplete() -> None:
    def steps(x: Any) -> Any:
        return jax.lax.scan(lambda h, _: (jnp.tanh(h @ WEIGHTS[:8]), None), x, None, length=10)[0]

    for call, word in ((steps, "while"), (jnp.linalg.inv, "custom_call")):
        _, receipt = adopted(call, np.ones((8, 8), np.float32)).count(8)
        assert not receipt["complete"]
        assert word in " ".join(receipt["doubtful"])
    _, receipt = adopted(product, ({"kernel": WEIGHTS}, ITEMS)).count(4)
    assert receipt["complete"]
