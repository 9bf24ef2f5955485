"""Nearest words, plurals, and clocks that only go forward."""

from __future__ import annotations

import re
import time

from laptime.kit.clock import Clock, SystemClock, utc_now
from laptime.kit.text import closest, count


def test_the_nearest_known_word_is_found_whatever_its_case() -> None:
    assert closest("efficientnet_bo", ["resnet18", "efficientnet_b0", "vit_b_16"]) == "efficientnet_b0"
    assert closest("CONVNEXT", ["ConvNeXt", "resnet18"]) == "ConvNeXt"


def test_nothing_is_suggested_when_nothing_comes_near() -> None:
    assert closest("xyzzy", ["resnet18", "vit_b_16"]) is None
    assert closest("x", []) is None


def test_words_can_come_from_a_generator() -> None:
    assert closest("jsn", (word for word in ("json", "html"))) == "json"


def test_only_one_is_singular() -> None:
    assert [count(n, "sample") for n in (0, 1, 2, 1200)] == [
        "0 samples",
        "1 sample",
        "2 samples",
        "1,200 samples",
    ]


def test_the_system_clock_is_a_clock_and_never_goes_back() -> None:
    clock: Clock = SystemClock()
    readings = [clock.now() for _ in range(1000)]
    assert readings == sorted(readings)


def test_sleeping_passes_time_but_uses_no_cpu() -> None:
    clock: Clock = SystemClock()
    now, cpu = clock.now(), clock.cpu()
    clock.sleep(0.05)
    assert clock.now() - now >= 0.05
    assert clock.cpu() - cpu < 0.04


def test_the_hot_loop_calls_the_c_function_itself() -> None:
    assert SystemClock().now is time.perf_counter


def test_the_time_of_day_is_iso_8601_in_utc() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", utc_now())
