"""The drop-in for pytorch-benchmark: its keys, right values, and everything its users pass to it."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import Tensor, nn  # noqa: E402

from laptime.compat.pytorch_benchmark import benchmark  # noqa: E402
from laptime.edges.pytorch_benchmark import Procedure  # noqa: E402
from laptime.kit.errors import UsageError  # noqa: E402

NUMBERS = dict.fromkeys(
    (
        f"{what}_{how}"
        for what in ("batches_per_second", "seconds_per_batch")
        for how in ("mean", "std", "min", "max")
    ),
    float,
)
WORDS = {"batches_per_second": str, "batch_latency": str}
PART = {"metrics": NUMBERS, "human_readable": WORDS}
# What release 0.3.6 returns on a CPU for a sample of 4 items, keys and types. `gpus` is None or a list.
THEIRS = {
    "machine_info": {
        "system": {"system": str, "node": str, "release": str},
        "cpu": {
            "model": str,
            "architecture": str,
            "cores": {"physical": (int, type(None)), "total": int},
            "frequency": (str, type(None)),
        },
        "memory": {"total": str, "used": str, "available": str},
        "gpus": (list, type(None)),
    },
    "device": str,
    "params": int,
    "flops": int,
    "timing": {"batch_size_1": {"on_device_inference": PART}, "batch_size_4": {"on_device_inference": PART}},
}
ADDED = {"trainable_params", "macs", "laptime"}


def differs(found: Any, expected: Any, where: str = "results") -> list[str]:
    """Where a structure is not as the tree says."""
    if not isinstance(expected, dict):
        return [] if isinstance(found, expected) else [f"{where} is {type(found).__name__}"]
    if set(found) != set(expected):
        return [f"{where} has {sorted(found)}"]
    return [d for key in expected for d in differs(found[key], expected[key], f"{where}.{key}")]


def tiny() -> Any:
    """54 MACs and 59 parameters."""
    return torch.nn.Sequential(torch.nn.Linear(16, 3), torch.nn.Linear(3, 2), torch.nn.Flatten())


@pytest.fixture
def sample() -> Any:
    """Four items."""
    return torch.randn(4, 16)


def without_energy(results: dict[str, Any]) -> dict[str, Any]:
    """Results as on a machine without a sensor."""
    return {key: value for key, value in results.items() if key != "energy"}


def test_keys_and_types_are_theirs_and_little_more(sample: Any) -> None:
    found = without_energy(benchmark(tiny(), sample, num_runs=10))
    assert set(found) - set(THEIRS) == ADDED
    assert differs({key: found[key] for key in THEIRS}, THEIRS) == []


def test_flops_are_twice_the_macs_of_one_item(sample: Any) -> None:
    found = benchmark(tiny(), sample, num_runs=2)
    assert found["macs"] == 16 * 3 + 3 * 2
    assert found["flops"] == 2 * found["macs"]


def test_frozen_parameters_count() -> None:
    model = tiny()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    found = benchmark(model, torch.randn(4, 16), num_runs=2)
    assert (found["params"], found["trainable_params"]) == (16 * 3 + 3 + 3 * 2 + 2, 3 * 2 + 2)


def test_lazy_layers_are_counted_and_can_be_trained_afterwards() -> None:
    model = torch.nn.Sequential(torch.nn.LazyLinear(3))
    assert benchmark(model, torch.randn(4, 8), num_runs=2)["params"] == 8 * 3 + 3
    model(torch.randn(2, 8)).sum().backward()
    assert model[0].weight.grad is not None


def test_seconds_are_seconds_and_as_many_runs_as_asked_are_timed(sample: Any) -> None:
    calls = []

    def sleeps(x: Any) -> Any:
        calls.append(x.shape[0])
        time.sleep(0.004)
        return x

    found = benchmark(sleeps, sample, num_runs=12)
    metrics = found["timing"]["batch_size_4"]["on_device_inference"]["metrics"]
    assert 0.004 <= metrics["seconds_per_batch_min"] < 0.02
    series = found["laptime"]["run"]["cases"][1]["series"][0]
    timed = series["samples"][-12:]
    assert len(series["samples"]) >= 12
    assert metrics["seconds_per_batch_mean"] == pytest.approx(sum(timed) / 12)
    assert metrics["batches_per_second_mean"] == pytest.approx(12 / sum(timed))
    assert metrics["batches_per_second_max"] == pytest.approx(1 / metrics["seconds_per_batch_min"])
    assert calls.count(4) >= 13


def test_one_run_has_no_spread(sample: Any) -> None:
    metrics = benchmark(tiny(), sample, num_runs=1)["timing"]["batch_size_4"]["on_device_inference"][
        "metrics"
    ]
    assert metrics["seconds_per_batch_std"] == 0.0
    assert metrics["seconds_per_batch_min"] == metrics["seconds_per_batch_max"]


class Branching(nn.Module):
    """Takes a dictionary of token ids and a mask, as a language model does; keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(50, 8)
        self.seen: list[Any] = []

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.seen.append({key: (value.dtype, tuple(value.shape)) for key, value in batch.items()})
        return {"out": self.embed(batch["ids"]) * batch["mask"][..., None]}


def test_token_ids_in_a_dictionary_are_cut_for_batch_1_and_keep_their_dtype() -> None:
    model = Branching()
    ids = torch.randint(50, (4, 7))
    found = benchmark(model, {"ids": ids, "mask": torch.ones(4, 7, dtype=torch.float64)}, num_runs=2)
    assert set(found["timing"]) == {"batch_size_1", "batch_size_4"}
    shapes = {seen["ids"] for seen in model.seen}
    assert shapes == {(torch.int64, (1, 7)), (torch.int64, (4, 7))}
    assert {seen["mask"][0] for seen in model.seen} == {torch.float64}


class Wrapper:
    """A model behind a method, with inputs in a tuple and transfer functions of its own."""

    def __init__(self) -> None:
        self.net = tiny().train()
        self.moves: list[Any] = []

    def infer(self, pair: Any) -> Any:
        assert not self.net.training
        return self.net(pair[0]), pair[1]

    def move(self, pair: Any, device: Any) -> Any:
        self.moves.append(device)
        return tuple(part.to(device) for part in pair)


def test_the_method_of_a_custom_class_with_its_own_functions() -> None:
    wrapper = Wrapper()
    found = benchmark(
        wrapper.infer,
        (torch.randn(4, 16), torch.arange(4)),
        num_runs=3,
        get_device_fn=lambda method: next(method.__self__.net.parameters()).device,
        transfer_to_device_fn=wrapper.move,
        batch_size=4,
    )
    assert found["params"] == 59
    assert found["flops"] == 108
    assert set(map(str, wrapper.moves)) == {"cpu"}
    assert wrapper.net.training


def test_a_tensor_as_sample_of_batch_1() -> None:
    seen = []

    def model(x: Any) -> Any:
        seen.append(x.clone())
        return x

    benchmark(model, torch.zeros(2, 3), num_runs=2, sample_with_batch_size1=torch.full((1, 3), 7.0))
    assert {float(x[0, 0]) for x in seen if len(x) == 1} == {7.0}


def test_an_opaque_sample_needs_its_batch_size() -> None:
    class Text(str):
        __slots__ = ()

    keep: dict[str, Any] = {"transfer_to_device_fn": lambda value, device: value, "num_runs": 2}
    with pytest.raises(UsageError, match="batch size"):
        benchmark(lambda text: text, Text("abc"), **keep)
    found = benchmark(lambda text: text, Text("abc"), batch_size=3, sample_with_batch_size1=Text("a"), **keep)
    assert set(found["timing"]) == {"batch_size_1", "batch_size_3"}
    assert "params" not in found
    assert "flops" not in found


def test_training_flags_are_restored_each_for_itself(sample: Any) -> None:
    model = tiny().train()
    model[1].eval()  # a frozen part that must not be set to train
    benchmark(model, sample, num_runs=2)
    assert [part.training for part in model.modules()] == [True, True, False, True]


class Refuses(nn.Module):
    """Raises from the third call on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 2)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        if self.calls > 3:
            raise ZeroDivisionError("on purpose")
        return self.layer(x)


def test_the_models_own_error_comes_out_and_leaves_nothing_changed(sample: Any) -> None:
    model = Refuses().train()
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        benchmark(model, sample, num_runs=5)
    assert model.training
    assert model.layer.training
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


def test_an_error_in_the_transfer_comes_out_too(sample: Any) -> None:
    def breaks(value: Any, device: Any) -> Any:
        if device != "cpu":
            raise LookupError("no such device")
        return value

    model = tiny().train()
    with pytest.raises(LookupError):
        benchmark(model, sample, num_runs=2, transfer_to_device_fn=breaks)
    assert model.training


def test_a_warm_up_function_is_called_as_theirs_is(sample: Any) -> None:
    calls = []

    def warm_up(model: Any, given: Any, device: Any, move: Any, *, num_runs: int, batch_size: int) -> None:
        move(model(move(given, device)), "cpu")
        calls.append((len(given), num_runs, batch_size))

    benchmark(tiny(), sample, num_runs=20, warm_up_fn=warm_up)
    assert calls == [(1, 1, 1), (1, 2, 1), (4, 2, 4)]


def test_results_are_printed_as_text_that_reads_like_theirs(sample: Any) -> None:
    lines: list[str] = []
    benchmark(tiny(), sample, num_runs=3, print_fn=lines.append, print_details=True)
    text = "\n".join(lines)
    for part in (
        "Machine info:\n  cpu:\n    architecture: ",
        "Model device: cpu",
        "Model parameters: 59 (59.00)",
        "Model FLOPs: 108 (108.00)",
        "Timing results (batch_size=4):\n  on_device_inference:\n    human_readable:\n      batch_latency: ",
        "Verdict:\n",
        "Counted:\n",
    ):
        assert part in text


def test_the_evidence_has_a_verdict_medians_and_the_run(sample: Any) -> None:
    import msgspec

    from laptime.records.run import Run

    found = benchmark(tiny(), sample, num_runs=30)["laptime"]
    run = msgspec.convert(found["run"], Run)
    assert found["verdict"] == run.trust
    median = found["latency"]["batch_size_4"]["isolated"]
    assert median["ci95"][0] <= median["median"] <= median["ci95"][1]
    assert [case.batch for case in run.cases] == [1, 4]
    assert run.cases[0].find("flops") is not None


def test_late_warm_up_is_no_timed_run() -> None:
    calls = 0

    def model(x: Any) -> Any:
        nonlocal calls
        calls += 1
        time.sleep(0.1 if calls < 16 else 0.003)
        return x

    found = benchmark(model, torch.zeros(1, 2), num_runs=20)
    metrics = found["timing"]["batch_size_1"]["on_device_inference"]["metrics"]
    assert (
        metrics["seconds_per_batch_mean"] < 0.03
    )  # a machine may pause; none of the slow calls may be timed
    assert found["laptime"]["latency"]["batch_size_1"]["isolated"]["warm_up"] >= 5


def test_copies_are_timed_apart_on_a_device_with_memory_of_its_own(
    sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Procedure, "_has_own_memory", True)

    class There(Tensor):
        """A tensor that was moved to the device."""

    def move(value: Any, device: Any) -> Any:
        if isinstance(device, str):  # back to the host
            time.sleep(0.005 if isinstance(value, There) else 0.0)
            return value.as_subclass(torch.Tensor)
        time.sleep(0.015)
        return value.as_subclass(There)

    def model(x: Any) -> Any:
        assert isinstance(x, There)
        time.sleep(0.010)
        return x

    found = benchmark(model, sample, num_runs=8, transfer_to_device_fn=move)
    parts = found["timing"]["batch_size_4"]
    assert list(parts) == ["on_device_inference", "cpu_to_gpu", "gpu_to_cpu", "total"]
    fastest = {name: part["metrics"]["seconds_per_batch_min"] for name, part in parts.items()}
    for name, seconds in (("on_device_inference", 0.010), ("cpu_to_gpu", 0.015), ("gpu_to_cpu", 0.005)):
        assert seconds <= fastest[name] < seconds + 0.0045, name
    assert fastest["total"] >= 0.030
    assert all(differs(part, PART) == [] for part in parts.values())


def test_energy_is_of_a_call_in_joules_and_kilowatt_hours(
    sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from laptime.edges.pytorch_benchmark.program import Runner
    from laptime.measure.protocol import Facts
    from laptime.probes import energy
    from laptime.records.series import Series

    real = Runner.facts

    def facts(self: Any, kind: str, batch: int, *, seconds: float = 0.0) -> Facts:
        if kind != "energy":
            return real(self, kind, batch, seconds=seconds)
        return Facts(batch=batch, series=[Series(metric=energy.GROSS, samples=[0.5])])

    monkeypatch.setattr(Runner, "facts", facts)
    found = benchmark(tiny(), sample, num_runs=2)["energy"]
    assert found["batch_size_1"]["joules"] == 0.5
    assert found["batch_size_4"]["joules"] == 2.0
    assert found["batch_size_4"]["kWh"] == pytest.approx(2.0 / 3.6e6)


def test_impossible_requests_are_refused(sample: Any) -> None:
    with pytest.raises(UsageError, match="num_runs"):
        benchmark(tiny(), sample, num_runs=0)
    with pytest.raises(UsageError, match="get_device_fn"):
        benchmark(tiny(), sample, get_device_fn=lambda model: "cpu")


@pytest.mark.slow
def test_efficientnet_has_its_published_work() -> None:
    from torchvision.models import efficientnet_b0

    found = benchmark(efficientnet_b0(), torch.randn(2, 3, 224, 224), num_runs=2)
    assert found["params"] == 5_288_548
    assert math.isclose(found["macs"], 0.386e9, rel_tol=0.01)
    assert math.isclose(found["flops"], 0.772e9, rel_tol=0.01)
