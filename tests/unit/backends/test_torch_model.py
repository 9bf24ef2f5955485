"""Loading and calling: what is asked for is what runs, and the user's objects stay as they are."""

from __future__ import annotations

import os
import sys
import types
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from laptime.backends import torch as backend  # noqa: E402
from laptime.backends.torch import place  # noqa: E402
from laptime.backends.torch.model import TorchModel  # noqa: E402
from laptime.backends.torch.setup import modules_in  # noqa: E402
from laptime.kit.errors import TargetError, Unavailable, UsageError, UserCodeError  # noqa: E402
from laptime.measure import protocol  # noqa: E402
from laptime.records.plan import Variant  # noqa: E402

MODELS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.drop = nn.Dropout(0.5)
        self.eval()

    def forward(self, x, *, scale=1.0):
        assert torch.is_inference_mode_enabled()
        assert not self.training
        return self.drop(self.layer(x)) * scale

def given():
    return Net(), torch.randn(2, 6)

def keywords():
    return Net(), {"x": torch.randn(2, 6), "scale": 2.0}

def guessed():
    return Net()

def wrong():
    return Net(), torch.randn(2, 7)

def unguessable():
    return nn.ReLU()

def by_batch(batch):
    return Net(), torch.full((batch, 6), float(batch))

def plain():
    net = Net()
    def run(x):
        return net(x)
    return run, torch.randn(2, 6)

def huge():
    return torch.empty(2**60), None

def explodes():
    return nn.Linear(1, 1), torch.full((1, 1), float("inf"))
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / f"nets_{abs(hash(tmp_path))}.py"
    path.write_text(MODELS)
    return str(path)


def opened(target: str, **settings: Any) -> TorchModel:
    return backend.open(Variant(target=target, **settings))


def in_memory(model: Any, inputs: Any = None, **settings: Any) -> TorchModel:
    variant = {"target": "model", "device": "auto", "dtype": "auto", **settings}
    return backend.open_object(model, inputs, Variant(**variant))


def test_file_function_runs_at_any_batch_in_eval_and_inference_mode(models: str) -> None:
    model = opened(f"{models}:given")
    assert model.workload(5).call().shape == (5, 3)
    with model.scope():
        assert torch.is_inference_mode_enabled()
        assert model.workload(1).call().shape == (1, 3)
    assert not torch.is_inference_mode_enabled()
    told = model.facts()["inputs"]
    assert (told["origin"], told["shapes"], told["batch"]) == ("given", "float32 (2, 6)", 2)
    assert "first dimension" in told["batch_is"]
    assert model.own_batch() == 2
    assert model.inputs_of(5)["shapes"] == "float32 (5, 6)"
    assert model.inputs_of(5)["resized"]
    assert "resized" not in model.inputs_of(2)


def test_keywords_are_passed_as_keywords(models: str) -> None:
    assert opened(f"{models}:keywords").workload(3).call().shape == (3, 3)


def test_guess_is_marked_as_a_guess(models: str) -> None:
    model = opened(f"{models}:guessed")
    assert model.workload(4).call().shape == (4, 3)
    inputs = model.facts()["inputs"]
    assert inputs["origin"] == "guessed"
    assert "layer: Linear" in inputs["guessed_from"]


def test_without_inputs_or_a_guess_the_error_says_what_to_return(models: str) -> None:
    with pytest.raises(TargetError) as caught:
        opened(f"{models}:unguessable")
    assert "(model, inputs)" in caught.value.next


def test_wrong_shape_is_the_users_error_with_shapes(models: str) -> None:
    model = opened(f"{models}:wrong")
    with pytest.raises(RuntimeError) as caught:
        model.workload(2).call()
    told = model.explain(caught.value, 2)
    assert isinstance(told, UserCodeError)
    assert "float32 (2, 7)" in told.why
    assert "nets_" in told.why


def test_function_with_batch_gives_the_inputs_of_each_batch(models: str) -> None:
    model = opened(f"{models}:by_batch", seed=3)
    inputs = {batch: model.workload(batch).inputs for batch in (1, 4)}
    assert inputs[4].tolist() == [[4.0] * 6] * 4
    assert inputs[1].tolist() == [[1.0] * 6]


def test_plain_function_finds_its_modules(models: str) -> None:
    model = opened(f"{models}:plain", dtype="bfloat16")
    assert model.workload(2).call().dtype == torch.bfloat16
    assert [type(m).__name__ for m in model.modules()] == ["Net"]


def test_exhausted_memory_while_loading_is_told(models: str) -> None:
    from laptime.kit.errors import OutOfMemory

    with pytest.raises(OutOfMemory):
        opened(f"{models}:huge")


def test_not_finite_outputs_are_seen(models: str) -> None:
    told = opened(f"{models}:explodes").check_outputs(2)
    assert (told["finite"], told["shape"]) == (False, "float32 (2, 1)")


def test_two_loads_measure_the_same_program() -> None:
    target = "torchvision:squeezenet1_1"
    a, b, other = opened(target), opened(target), opened(target, seed=1)
    first, second, third = (model.workload(1).call() for model in (a, b, other))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert a.facts() == b.facts()


def test_making_inputs_leaves_the_users_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    in_memory(torch.nn.Linear(2, 2)).workload(8)
    torch.manual_seed(7)
    model = in_memory(torch.nn.ReLU(), torch.zeros(1))
    model.workload(4)
    model.facts()
    assert torch.equal(torch.rand(3), expected)


def test_dtype_and_memory_format_reach_weights_and_inputs() -> None:
    model = opened("torchvision:squeezenet1_1", dtype="bfloat16", channels_last=True)
    work = model.workload(2)
    (module,) = model.modules()
    assert {p.dtype for p in module.parameters()} == {torch.bfloat16}
    assert work.inputs.dtype == torch.bfloat16
    assert work.inputs.is_contiguous(memory_format=torch.channels_last)
    assert work.call().dtype == torch.bfloat16
    assert "bfloat16" in model.facts()["inputs"]["shapes"]


def test_running_statistics_keep_untrained_activations_in_range() -> None:
    model = opened("torchvision:mobilenet_v3_small")
    assert model.facts()["running_statistics"]
    # As initialised (mean 0, variance 1) the logits of this network differ by 1e-9.
    assert float(model.workload(4).call().std()) > 1e-3


def test_users_model_is_neither_moved_nor_cast_nor_left_in_eval() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout()).train()
    net[1].eval()
    model = in_memory(net, torch.ones(1, 3), dtype="bfloat16")
    assert model.workload(2).call().dtype == torch.bfloat16
    assert {p.dtype for p in net.parameters()} == {torch.float32}
    model.close()
    assert (net.training, net[0].training, net[1].training) == (True, True, False)
    same = in_memory(net, torch.ones(1, 3), options={"mode": "eval"})
    assert same.modules()[0] is net
    assert not net.training
    same.close()
    assert net.training
    assert not net[1].training


def test_flags_come_back_when_a_model_was_made_ready_twice() -> None:
    net = torch.nn.Linear(2, 2).train()
    first, second = (in_memory(net, torch.ones(1, 2)) for _ in range(2))
    second.close()
    first.close()
    assert net.training


def test_function_that_returns_one_model_for_all_batches_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "one_model_for_all.py"
    path.write_text(
        "import torch\nnet = torch.nn.Linear(2, 2)\ndef build(batch): return net, torch.ones(batch, 2)\n"
    )
    model = opened(f"{path}:build")
    assert model.workload(3).call().shape == (3, 2)
    model.close()
    assert sys.modules["one_model_for_all"].net.training


def test_imports_bring_the_framework_and_the_targets_package() -> None:
    backend.imports(Variant(target="timm:resnet18"))
    assert "timm" in sys.modules
    assert set(backend.available()) >= {"torch"}


def test_half_model_stays_half_when_nothing_else_is_asked() -> None:
    net = torch.nn.Linear(3, 3).to(torch.bfloat16)
    inputs = torch.ones(1, 3, dtype=torch.bfloat16)
    assert in_memory(net, inputs).workload(2).call().dtype == torch.bfloat16


def test_inputs_may_be_a_function_of_the_batch() -> None:
    model = in_memory(torch.nn.Linear(3, 2), lambda batch: torch.ones(batch, 3))
    assert model.workload(7).call().shape == (7, 2)


def test_methods_partials_and_objects_are_seen_through() -> None:
    net = torch.nn.Linear(2, 2)

    class Wrapper:
        def __init__(self) -> None:
            self.net = net

        def run(self, x: Any) -> Any:
            return self.net(x)

    class Slots:
        __slots__ = ("net",)

        def __init__(self) -> None:
            self.net = net

        def __call__(self, x: Any) -> Any:
            return self.net(x)

    class Shared:
        nets: ClassVar[dict[str, Any]] = {"a": net}

        def __call__(self, x: Any) -> Any:
            return self.nets["a"](x)

        @classmethod
        def run(cls, x: Any) -> Any:
            return cls.nets["a"](x)

    class Naming:
        def __call__(self, x: Any) -> Any:
            return net(x)

    models = types.ModuleType("models_of_somebody")
    models.net = net  # type: ignore[attr-defined]
    named: dict[str, Any] = {"models": models, "net": net}
    exec("def by_module(x): return models.net(x)\ndef unused(x): return x.net(models)", named)
    calls = (
        *(net, net.forward, partial(net), lambda x: net(x), lambda x, held=net: held(x)),
        *(Wrapper().run, Slots(), Slots().__call__, Shared(), Shared.run, Naming(), named["by_module"]),
        *(deque([net]).pop, {1: (net,)}.get, lambda x, *, held=[net]: held[0](x)),
    )
    for call in calls:
        assert modules_in(call) == [net]
    for call in (named["unused"], lambda x: torch.nn.functional.relu(x), types.SimpleNamespace(net=1)):
        assert modules_in(call) == []
    model = in_memory(Wrapper().run, torch.ones(1, 2))
    assert model.workload(3).call().shape == (3, 2)
    with pytest.raises(UsageError, match="cast"):
        in_memory(Wrapper().run, torch.ones(1, 2), dtype="float64")


def test_function_without_inputs_has_no_batch_to_change() -> None:
    model = in_memory(lambda: torch.ones(1))
    model.workload(1).call()
    with pytest.raises(TargetError, match="batch 8"):
        model.workload(8)


def test_thread_count_is_set_told_and_given_back() -> None:
    before = torch.get_num_threads()
    model = in_memory(torch.nn.Linear(2, 2), threads=before + 1)
    assert model.knobs()["torch.num_threads"] == before + 1
    model.close()
    assert torch.get_num_threads() == before


def test_abilities_on_the_cpu() -> None:
    model = in_memory(torch.nn.Linear(2, 2))
    for ability in (
        protocol.CountsWork,
        protocol.ChecksOutputs,
        protocol.Compiles,
        protocol.Scoped,
        protocol.Explains,
        protocol.Closes,
    ):
        assert isinstance(model, ability)
    for of_devices in (protocol.TimesDevice, protocol.MeasuresMemory, protocol.TimesCopies):
        assert not isinstance(model, of_devices)
    work = model.workload(1)
    assert work.synchronous
    work.sync()


@pytest.mark.parametrize(
    ("settings", "error", "word"),
    [
        ({"device": "cuda:77"}, Unavailable, "sees"),
        ({"device": "gpu"}, Unavailable, "no device 'gpu'"),
        ({"dtype": "floot16"}, UsageError, "--dtype float16"),
        ({"compile": "max-autotun"}, UsageError, "--compile max-autotune"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], error: type[Exception], word: str) -> None:
    with pytest.raises(error) as caught:
        opened("torchvision:squeezenet1_1", **settings)
    assert word in str(caught.value)


@pytest.mark.parametrize("batch", [0, -1])
def test_batch_below_one_is_refused(batch: int) -> None:
    with pytest.raises(UsageError, match="not possible"):
        in_memory(torch.nn.Linear(2, 2)).workload(batch)


def test_what_is_no_callable_is_refused() -> None:
    with pytest.raises(UsageError, match="type int"):
        in_memory(3)


def test_knobs_and_libraries_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "3")
    monkeypatch.setitem(os.environ, "TORCHINDUCTOR_CACHE_DIR", "/somewhere")
    model = in_memory(torch.nn.Linear(2, 2))
    knobs = model.knobs()
    assert knobs["env.OMP_NUM_THREADS"] == "3"
    assert "env.TORCHINDUCTOR_CACHE_DIR" not in knobs
    assert knobs["torch.float32_matmul_precision"] == torch.get_float32_matmul_precision()
    assert all(type(version) is str for version in model.libraries().values())
    assert model.devices()[0].name == "cpu"


def test_waiting_is_for_the_models_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    place.waiter(torch.device("cuda:1"))()
    assert waited == [torch.device("cuda:1")]


@pytest.mark.slow
def test_compiled_model_counts_its_graphs_and_agrees_with_eager() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    eager, fast = in_memory(net, torch.ones(1, 8)), in_memory(net, torch.ones(1, 8), compile="default")
    before = fast.compiles()
    with fast.scope():
        result = fast.workload(2).call()
        assert fast.compiles() == before + 1
        fast.workload(2).call()
        assert fast.compiles() == before + 1
        fast.workload(4).call()
        assert fast.compiles() == before + 2
    assert torch.allclose(result, eager.workload(2).call())
    assert fast.knobs()["compile.dynamic"] is False
