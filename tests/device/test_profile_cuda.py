"""A profile on CUDA against numbers found another way: events, and work of known length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laptime.records.profile import Profile
from laptime.verbs import trace as verb

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CYCLES = 20_000_000
"""Clock cycles that a kernel spins: about 10 ms on a device of 1 to 2 GHz."""
EXAMPLE = Path(__file__).parents[2] / "examples" / "resnet18.py"


def traced(step: Any, folder: Path, *, steps: int = 4) -> Profile:
    """The profile of some steps, recorded by torch alone."""
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=steps),
        on_trace_ready=torch.profiler.tensorboard_trace_handler(str(folder)),
        record_shapes=True,
        with_stack=True,
    ) as profiler:
        for _ in range(steps + 2):
            step()
            profiler.step()
    return verb.analyse([folder])


def seconds(step: Any) -> float:
    """Seconds of a step on the device, by events."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    step()
    torch.cuda.synchronize()
    first.record()
    for _ in range(5):
        step()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / 1e3 / 5


def test_device_bound_steps_are_as_long_as_events_say(tmp_path: Path) -> None:
    def step() -> None:
        torch.cuda._sleep(CYCLES)

    known = seconds(step)
    found = traced(step, tmp_path)
    assert found.device_type == "cuda"
    assert found.overview.devices[0].utilization > 0.9
    assert found.overview.step_median_ns / 1e9 == pytest.approx(known, rel=0.1)
    assert found.kernels[0].mean_ns / 1e9 == pytest.approx(known, rel=0.05)
    assert found.verdict is not None
    assert found.verdict.bound == "device"


def test_a_read_back_in_every_step_is_a_synchronisation_of_its_line(tmp_path: Path) -> None:
    values = torch.zeros(1, device="cuda")
    weight = torch.randn(4096, 4096, device="cuda")

    def step() -> None:
        product = weight @ weight
        (values + product[0, 0]).item()
        for _ in range(200):
            values.add_(1)

    found = traced(step, tmp_path)
    called = [each for each in found.overview.synchronisations if each.operator == "aten::item"]
    assert len(called) == 1
    assert called[0].calls == 4
    assert any(Path(__file__).name in frame for frame in called[0].stack)


def test_small_kernels_are_bound_by_the_host(tmp_path: Path) -> None:
    values = torch.zeros(16, device="cuda")

    def step() -> None:
        for _ in range(2000):
            values.add_(1)

    found = traced(step, tmp_path)
    assert found.verdict is not None
    assert found.verdict.bound == "host"
    assert found.launches is not None
    assert found.launches.launches >= 4 * 2000
    assert found.launches.unlaunched == 0


def test_half_precision_products_use_tensor_cores(tmp_path: Path) -> None:
    half = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    found = traced(lambda: half @ half, tmp_path / "half")
    assert found.overview.devices[0].tensor_core_share == pytest.approx(1.0, abs=0.05)


def test_pageable_and_pinned_copies_are_told_apart(tmp_path: Path) -> None:
    pageable = torch.randn(1 << 22)
    pinned = pageable.pin_memory()

    def step() -> None:
        pageable.cuda()
        pinned.cuda(non_blocking=True)

    found = traced(step, tmp_path)
    rows = {row.memory: row for row in found.copies if row.direction == "HtoD"}
    assert rows["pageable"].calls == rows["pinned"].calls == 4
    assert rows["pageable"].bytes == 4 * (1 << 24)
    assert (rows["pinned"].bandwidth or 0) > (rows["pageable"].bandwidth or 0)


def test_the_peak_of_memory_is_that_of_the_allocator(tmp_path: Path) -> None:
    with torch.profiler.profile(profile_memory=True) as profiler:
        torch.cuda.reset_peak_memory_stats()
        held = [torch.empty(1 << 24, device="cuda") for _ in range(4)]
        del held
        peak = torch.cuda.max_memory_allocated()
    profiler.export_chrome_trace(str(tmp_path / "t.json"))
    found = {row.device: row for row in verb.analyse([tmp_path / "t.json"]).memory}
    assert found["cuda:0"].peak == peak


def test_the_example_is_profiled_unmodified(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "laptime", "profile", "--json", "--trace", str(tmp_path), str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=280, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found = json.loads(done.stdout)
    assert found["device_type"] == "cuda"
    assert found["overview"]["devices"][0]["utilization"] > 0
    assert found["reconciled"]["untraced_ns"] > 0
    parts = found["reconciled"]["parts_ns"]
    assert sum(parts.values()) == found["reconciled"]["untraced_ns"]
