"""The drop-in for pytorch-benchmark on CUDA: what that tool gets wrong there, against events of our own."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

from torch import nn  # noqa: E402

CYCLES = 20_000_000
"""Clock cycles that a kernel spins: about 10 ms on a device of 1 to 2 GHz."""
PARTS = ["on_device_inference", "cpu_to_gpu", "gpu_to_cpu", "total"]


class Spin(nn.Module):
    """A program of known length on the device, and of next to none on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: Any) -> Any:
        torch.cuda._sleep(CYCLES)
        return x + self.weight


def known(model: Any, inputs: Any) -> float:
    """Seconds of a call on the device."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.no_grad():
        model(inputs)
        torch.cuda.synchronize()
        first.record()
        for _ in range(10):
            model(inputs)
        last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / 1e3 / 10


@pytest.fixture(scope="module")
def results() -> tuple[dict[str, Any], float]:
    """What the drop-in says of 4 items of 1 MiB each, and how long a call takes."""
    from laptime.compat.pytorch_benchmark import benchmark

    model = Spin().cuda()
    found = benchmark(model, torch.zeros(4, 2**18), num_runs=20)
    return found, known(model, torch.zeros(4, 2**18, device="cuda"))


def means(found: dict[str, Any], batch: int) -> dict[str, float]:
    """Mean seconds of each part."""
    timing = found["timing"][f"batch_size_{batch}"]
    return {name: timing[name]["metrics"]["seconds_per_batch_mean"] for name in timing}


def test_all_four_parts_are_positive_and_the_call_has_the_length_that_it_has(
    results: tuple[dict[str, Any], float],
) -> None:
    found, length = results
    for batch in (1, 4):
        seconds = means(found, batch)
        assert list(seconds) == PARTS
        assert all(value > 0 for value in seconds.values())
        assert seconds["on_device_inference"] == pytest.approx(length, rel=0.1)


def test_the_kernel_counts_as_no_copy(results: tuple[dict[str, Any], float]) -> None:
    found, length = results
    seconds = means(found, 4)
    assert seconds["cpu_to_gpu"] < length / 2
    assert seconds["gpu_to_cpu"] < length / 2
    assert seconds["total"] >= 0.95 * (length + 0.5 * seconds["cpu_to_gpu"])


def test_memory_of_a_call_holds_its_input_and_output(results: tuple[dict[str, Any], float]) -> None:
    memory = results[0]["memory"]["batch_size_4"]
    rise = memory["max_inference_bytes"] - memory["pre_inference_bytes"]
    assert rise >= 2 * 4 * 2**20
    assert memory["post_inference_bytes"] - memory["pre_inference_bytes"] < 2**20
    assert memory["max_inference"].endswith("iB")


def test_the_machine_names_its_gpus(results: tuple[dict[str, Any], float]) -> None:
    found = results[0]
    assert found["device"] == "cuda"
    assert torch.cuda.get_device_name(0) in [gpu["name"] for gpu in found["machine_info"]["gpus"]]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one CUDA device")
def test_a_model_on_another_than_the_current_device_is_waited_for() -> None:
    from laptime.compat.pytorch_benchmark import benchmark

    model = Spin().to("cuda:1")
    with torch.cuda.device(1):
        length = known(model, torch.zeros(1, 4, device="cuda:1"))
    seconds = means(benchmark(model, torch.zeros(1, 4), num_runs=10), 1)
    assert seconds["on_device_inference"] == pytest.approx(length, rel=0.1)
    assert seconds["total"] >= 0.95 * length
