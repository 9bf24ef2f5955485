"""Clock step and cost."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from fixtures.fake_root import FakeRoot
from laptime.probes import wall


def test_both_clocks_are_measured_in_seconds() -> None:
    found = {timer.name: timer for timer in wall.timers()}
    assert set(found) == {"perf_counter", "process_time"}
    assert 0 < found["perf_counter"].step < 1e-3
    assert 0 < found["perf_counter"].cost < 1e-4
    assert found["perf_counter"].cost < found["process_time"].cost


def test_the_step_of_a_fine_clock_is_its_tick() -> None:
    ticks = count()
    assert wall.step_of(lambda: next(ticks) * 0.25) == 0.25


def test_the_step_of_a_coarse_clock_is_found_although_most_readings_repeat() -> None:
    ticks = count()
    assert wall.step_of(lambda: (next(ticks) // 5000) * 0.015) == pytest.approx(0.015)


def test_the_clock_source_is_read_where_there_is_one(tmp_path: Path) -> None:
    tree = FakeRoot(tmp_path)
    assert wall.clock_source(tree.root) is None
    tree.put("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
    assert wall.clock_source(tree.root) == "hpet"
