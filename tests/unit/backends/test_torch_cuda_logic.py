"""What is done with events, memory statistics and copies, on a device that only pretends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from laptime.backends.torch import cuda  # noqa: E402
from laptime.backends.torch.workload import TorchWorkload  # noqa: E402


@dataclass
class Event:
    """Like torch.cuda.Event: milliseconds from this one to a later one."""

    at: float

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


@dataclass
class Device:
    """A device with its own time: calls take what is planted, holding it takes what is asked."""

    time: float = 100.0
    held: list[float] = field(default_factory=list)
    waits: int = 0

    def mark(self) -> Event:
        return Event(self.time)

    def hold(self, seconds: float) -> None:
        self.held.append(seconds)
        self.time += seconds

    def wait(self) -> None:
        self.waits += 1


def test_event_times_are_positive_seconds() -> None:
    device, planted = Device(), iter([9.0, 0.002, 0.003, 0.0045])

    def call() -> None:
        device.time += next(planted)

    assert cuda.event_times(call, 3, clock=device) == pytest.approx([0.002, 0.003, 0.0045])


def test_device_is_held_before_each_call_outside_its_events() -> None:
    device = Device()

    def call() -> None:
        device.time += 0.001

    times = cuda.event_times(call, 5, clock=device)
    assert len(device.held) == 5
    assert all(0 < seconds <= 0.25 for seconds in device.held)
    assert times == pytest.approx([0.001] * 5)
    assert device.waits == 3


def workload(call: Any, *, inputs: Any = None, batch: int = 2) -> TorchWorkload:
    return TorchWorkload(
        call=call, sync=lambda: None, batch=batch, synchronous=False, inputs=inputs, eager=call
    )


class Allocator:
    """The statistics that torch.cuda keeps, in bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.allocated, self.peak, self.reserved, self.reserved_peak = 1000, 9000, 16000, 16000
        names = {
            "reset_peak_memory_stats": self.reset,
            "max_memory_allocated": lambda device: self.peak,
            "max_memory_reserved": lambda device: self.reserved_peak,
            "memory_allocated": lambda device: self.allocated,
            "memory_reserved": lambda device: self.reserved,
            "mem_get_info": lambda device: (80_000, 100_000),
            "empty_cache": self.empty,
            "synchronize": lambda device: None,
        }
        for name, function in names.items():
            monkeypatch.setattr(torch.cuda, name, function)

    def reset(self, device: Any) -> None:
        self.peak, self.reserved_peak = self.allocated, self.reserved

    def empty(self) -> None:
        self.reserved = 2000

    def use(self, size: int) -> None:
        self.peak = max(self.peak, self.allocated + size)
        self.reserved = max(self.reserved, self.allocated + size)
        self.reserved_peak = max(self.reserved_peak, self.reserved)


def test_memory_is_split_and_old_peaks_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = Allocator(monkeypatch)
    net = torch.nn.Linear(4, 4)
    tied = torch.nn.Linear(4, 4)
    tied.weight = net.weight

    def call() -> Any:
        allocator.use(3000)
        return torch.ones(2, 4)

    work = workload(call, inputs=torch.ones(2, 4))
    series, details = cuda.memory(work, torch.device("cpu"), [net, tied], first_peak=7000)
    values = {each.metric.tag.rpartition("/")[2]: each.samples[0] for each in series}
    assert values == {
        "peak": 4000,
        "weights": (16 + 4 + 4) * 4,
        "activations": 3000,
        "reserved": 4000,
        "first_peak": 7000,
        "context": 100_000 - 80_000 - 4000,
    }
    assert (details["inputs"], details["outputs"], details["before_call"]) == (32, 32, 1000)


def test_first_peak_is_noted_once_and_then_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = Allocator(monkeypatch)
    peaks: dict[int, int] = {}

    def bare() -> None:
        allocator.use(5000)

    work = workload(bare)
    work.call = held = cuda.with_first_peak(work, torch.device("cpu"), peaks)
    held()
    assert peaks == {2: 6000}
    assert work.call is bare
    allocator.allocated = 50_000
    held()
    assert peaks == {2: 6000}


def test_copies_go_both_ways_for_all_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    original = torch.empty_like
    pinned: list[bool] = []

    def empty_like(tensor: Any, *, pin_memory: bool = False, **settings: Any) -> Any:
        pinned.append(pin_memory)
        return original(tensor, **settings)

    monkeypatch.setattr(torch, "empty_like", empty_like)
    inputs = {"ids": torch.ones(2, 3, dtype=torch.int64), "more": [torch.ones(2)]}
    work = workload(lambda: (torch.ones(2, 8), None), inputs=inputs)
    series = {each.metric.tag: each for each in cuda.copies(work, torch.device("cpu"), 4)}
    assert set(series) == {f"copy/{way}/{kind}" for way in ("h2d", "d2h") for kind in ("pageable", "pinned")}
    assert all(len(each.samples) == 4 and min(each.samples) > 0 for each in series.values())
    assert series["copy/h2d/pinned"].note == "56 bytes in 2 tensors"
    assert series["copy/d2h/pageable"].note == "64 bytes in 1 tensors"
    assert any(pinned)


def test_nothing_on_the_device_means_no_copies() -> None:
    assert cuda.copies(workload(lambda: 3, inputs="text"), torch.device("cpu"), 2) == []
