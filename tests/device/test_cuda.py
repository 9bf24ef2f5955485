"""On a CUDA device: the contract holds, times have the right sign, unit and size, and a whole run is sane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from laptime import testing
from laptime.records.plan import Variant

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

from torch import nn  # noqa: E402

DEVICE = "cuda:0"
CYCLES = 20_000_000
"""Clock cycles that a kernel spins: about 10 ms on a device of 1 to 2 GHz."""


class Spin(nn.Module):
    """A program of known length on the device, and of next to none on the host."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: Any) -> Any:
        torch.cuda._sleep(CYCLES)
        return x + self.weight


@pytest.fixture
def spinning() -> Iterator[tuple[Any, float]]:
    """The opened program, and its seconds on the device by CUDA events of this test's own."""
    from laptime.backends import torch as backend

    module, inputs = Spin().to(DEVICE), torch.zeros(1, 4, device=DEVICE)
    model = backend.open_object(module, inputs, Variant(target="spin", device=DEVICE))
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    module(inputs)
    torch.cuda.synchronize(DEVICE)
    first.record()
    for _ in range(10):
        module(inputs)
    last.record()
    torch.cuda.synchronize(DEVICE)
    yield model, first.elapsed_time(last) / 1e3 / 10
    model.close()


def test_the_torch_backend_keeps_its_contract_on_the_device() -> None:
    testing.check_backend("torch", target="torchvision:squeezenet1_1", device=DEVICE)


def test_device_times_are_positive_seconds_of_the_right_size(spinning: tuple[Any, float]) -> None:
    model, known = spinning
    times = model.device_times(1, 10)
    assert len(times) == 10
    assert all(0.8 * known < seconds < 1.3 * known for seconds in times)


def test_sync_waits_for_the_device(spinning: tuple[Any, float]) -> None:
    from laptime.measure import loop

    model, known = spinning
    tape = loop.time_isolated(model.workload(1), loop.Terms(seconds=0.5, min_calls=10, max_calls=100))
    assert min(tape.seconds) > 0.8 * known


def test_the_device_and_the_host_agree_when_the_device_is_the_bottleneck(
    spinning: tuple[Any, float],
) -> None:
    from laptime.measure import loop

    model, known = spinning
    tape = loop.time_saturated(model.workload(1), loop.Terms(seconds=0.5, min_calls=10, max_calls=100))
    assert sum(s * n for s, n in zip(tape.seconds, tape.calls, strict=True)) / sum(
        tape.calls
    ) == pytest.approx(known, rel=0.2)


@pytest.mark.slow
def test_a_whole_run_has_every_regime_memory_and_copies() -> None:
    import laptime

    run = laptime.bench("torchvision:resnet18", batch=[1, 8], device=DEVICE, budget=20.0)
    assert [case.status for case in run.cases] == ["ok", "ok"]
    assert run.trust != "invalid"
    for case in run.cases:
        medians = {}
        for regime in ("isolated", "saturated", "device"):
            series = case.find("latency", regime)
            assert series is not None, regime
            assert all(0 < seconds < 10 for seconds in series.samples), regime
            medians[regime] = sorted(series.samples)[len(series.samples) // 2]
        assert medians["device"] < 1.1 * medians["isolated"]
        tags = {series.metric.tag for series in case.series}
        assert {"memory/device/weights", "memory/device/activations"} <= tags
        assert any(tag.startswith("copy/h2d") for tag in tags)
