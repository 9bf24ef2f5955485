"""The PyTorch backend on a real CUDA device: signs, units and sizes that no fake can prove."""

from __future__ import annotations

import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

from laptime.backends import torch as backend  # noqa: E402
from laptime.backends.torch import cuda, peaks, place  # noqa: E402
from laptime.kit.errors import OutOfMemory  # noqa: E402
from laptime.measure import protocol  # noqa: E402
from laptime.records.plan import Variant  # noqa: E402


def opened(target: str, **settings: Any) -> Any:
    return backend.open(Variant(target=target, device="cuda:0", **settings))


def in_memory(model: Any, inputs: Any, **settings: Any) -> Any:
    variant = Variant(**{"target": "model", "device": "cuda:0", "dtype": "auto", **settings})
    return backend.open_object(model, inputs, variant)


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def isolated(work: Any, calls: int = 20) -> float:
    taken = []
    for _ in range(calls):
        work.sync()
        began = time.perf_counter()
        work.call()
        work.sync()
        taken.append(time.perf_counter() - began)
    return median(taken)


def test_auto_finds_the_device() -> None:
    assert place.resolve("auto").type == "cuda"
    device = opened("torchvision:resnet18").devices()[0]
    assert (device.name, device.memory is not None, device.model != "") == ("cuda:0", True, True)


def test_event_times_agree_with_the_clock_for_long_calls() -> None:
    def spin() -> None:
        torch.cuda._sleep(20_000_000)  # type: ignore[no-untyped-call, unused-ignore]

    model = in_memory(spin, ())
    work = model.workload(1)
    work.call()
    wall = isolated(work)
    assert wall > 5e-3
    assert median(model.device_times(1, 10)) == pytest.approx(wall, rel=0.1)


def test_small_kernels_are_timed_without_the_host() -> None:
    net = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(100)))
    model = in_memory(net, torch.ones(1, 16))
    work = model.workload(1)
    work.call()
    with model.scope():
        wall = isolated(work)
    on_device = median(model.device_times(1, 50))
    assert 0 < on_device < wall


def test_abilities_and_device_times_of_a_real_model() -> None:
    model = opened("torchvision:resnet18", dtype="bfloat16", channels_last=True)
    model.workload(8).call()
    assert 1e-5 < median(model.device_times(8, 20)) < 0.1
    assert model.check_outputs(8) == {"finite": True, "shape": "bfloat16 (8, 1000)"}
    assert isinstance(model, protocol.TimesDevice)


@pytest.mark.parametrize("name", ["resnet152", "efficientnet_b0"])
def test_untrained_networks_are_finite_in_half_precision(name: str) -> None:
    assert opened(f"torchvision:{name}", dtype="float16").check_outputs(2)["finite"] is True


def test_memory_adds_up() -> None:
    model = opened("torchvision:resnet18")
    model.workload(32).call()
    series, details = model.device_memory(32)
    values = {each.metric.tag.rpartition("/")[2]: each.samples[0] for each in series}
    (net,) = model.modules()
    weights = sum(t.numel() * t.element_size() for t in (*net.parameters(), *net.buffers()))
    assert values["weights"] == weights
    assert values["weights"] + values["activations"] <= values["peak"] <= values["reserved"]
    # The output of the first convolution and of its batch norm: 32 x 64 x 112 x 112 floats.
    assert values["activations"] > 32 * 64 * 112 * 112 * 4
    assert values["first_peak"] >= values["peak"] * 0.5
    assert values["context"] > 50e6
    assert details["inputs"] == 32 * 3 * 224 * 224 * 4


def test_copies_have_plausible_rates_and_pinned_is_not_slower() -> None:
    model = in_memory(torch.nn.Identity(), torch.ones(64, 2**18))  # 64 MiB
    series = {each.metric.tag: median(each.samples) for each in model.copies(64, 10)}
    size = 64 * 2**18 * 4
    assert len(series) == 4
    assert all(1e8 < size / seconds < 1e12 for seconds in series.values())
    assert series["copy/h2d/pinned"] < series["copy/h2d/pageable"] * 1.2


def test_out_of_memory_is_told_and_survived() -> None:
    model = in_memory(lambda x: torch.empty(2**44, device="cuda"), torch.ones(1))
    work = model.workload(1)
    with pytest.raises(torch.cuda.OutOfMemoryError) as caught:
        work.call()
    assert isinstance(model.explain(caught.value, 1), OutOfMemory)
    assert in_memory(torch.nn.Linear(2, 2), torch.ones(1, 2)).workload(1).call().device.type == "cuda"


def test_users_model_stays_on_the_cpu() -> None:
    net = torch.nn.Linear(2, 2)
    assert in_memory(net, torch.ones(1, 2)).workload(4).call().is_cuda
    assert not net.weight.is_cuda


def test_peaks_are_between_a_laptop_and_the_next_decade() -> None:
    float32, tf32, half, copy = peaks.peaks("cuda:0", ["float32", "tf32", "bfloat16"], 8.0)
    assert 1e12 < float32["value"] < 1e15
    assert float32["value"] < tf32["value"] * 1.1
    assert tf32["value"] < half["value"] < 1e16
    assert 1e11 < copy["value"] < 1e14


def test_holding_the_device_takes_about_as_long_as_asked() -> None:
    clock = cuda.DeviceClock(torch.device("cuda:0"))
    clock.hold(0.01)
    clock.wait()
    began = time.perf_counter()
    clock.hold(0.05)
    clock.wait()
    assert 0.025 < time.perf_counter() - began < 0.2


@pytest.mark.slow
def test_compiled_with_cuda_graphs_agrees_with_eager() -> None:
    target = "torchvision:resnet18"
    fast = opened(target, compile="reduce-overhead").workload(2)
    for _ in range(3):
        result = fast.call().clone()
    torch.testing.assert_close(result, opened(target).workload(2).call(), rtol=1e-2, atol=1e-2)
