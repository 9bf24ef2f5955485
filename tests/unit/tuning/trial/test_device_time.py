"""The device's share of a step: from a profiler played by a script, since no accelerator is here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from laptime.tuning.trial.diagnosis.ablation_blocks import LoopTraits, plan_blocks
from laptime.tuning.trial.diagnosis.sync_detector import DeviceTime, sum_union

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_streams_that_overlap_count_once() -> None:
    assert sum_union([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (5.2, 5.8)]) == 4.0
    assert sum_union([]) == 0.0


def event(kind: str, start: float, end: float, **more: Any) -> Any:
    return SimpleNamespace(
        device_type=SimpleNamespace(name=kind), time_range=SimpleNamespace(start=start, end=end), **more
    )


class Played:
    """A profiler: microseconds of kernels, of their launches, and of an annotation around all of them."""

    asked: ClassVar[list[Any]] = []
    left = 0

    def __init__(self, activities: list[Any]) -> None:
        Played.asked.append(activities)

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *error: object) -> None:
        Played.left += 1

    def events(self) -> list[Any]:
        return [
            event("CUDA", 1000, 3000),
            event("CUDA", 2000, 4000, is_user_annotation=False),
            event("CUDA", 0, 90_000, is_user_annotation=True),
            event("CPU", 0, 80_000),
        ]


def test_kernels_of_some_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.profiler, "profile", Played)
    busy = DeviceTime()
    for _ in range(3):
        busy.enter("cuda")
    busy.leave()
    busy.leave()
    assert Played.asked == [[torch.profiler.ProfilerActivity.CUDA]]
    assert Played.left == 1
    assert busy.per_step == pytest.approx(0.001)


def test_nothing_recorded_is_not_known() -> None:
    busy = DeviceTime()
    busy.enter("cpu")
    torch.ones(3).sum()
    busy.leave()
    assert busy.per_step is None


def test_a_profiler_that_may_not_run_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**given: Any) -> Any:
        raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")

    monkeypatch.setattr(torch.profiler, "profile", refused)
    busy = DeviceTime()
    busy.enter("cuda")
    busy.leave()
    assert busy.per_step is None


def test_only_accelerators_are_recorded() -> None:
    modes = [
        {each.variant for each in plan_blocks(LoopTraits(step=0.01, accelerator=there), seconds=10, order=0)}
        for there in (True, False)
    ]
    assert "traced" in modes[0]
    assert "traced" not in modes[1]
