"""What bounds a call: synthetic rows whose answer is known."""

from __future__ import annotations

from typing import Any

import pytest

from laptime.analysis.bounds import Recorded, bounds
from laptime.records.overview import CallBounds, Ceilings, OperatorClass, Work

CEILINGS = Ceilings(device="cores", flops={"float32": 1e11}, bandwidth=1e10, source="by hand")
"""100 GFLOP/s and 10 GB/s: the ridge is at 10 FLOP a byte."""


def row(
    kind: OperatorClass = "matmul",
    ms: float = 10.0,
    flop: float = 0.0,
    moved: float | None = 0.0,
    calls: int = 1,
    dtype: str = "float32",
) -> Work:
    return Work(
        id=f"{kind} {ms} {flop}",
        kind=kind,
        name=f"aten::{kind}",
        calls=calls,
        total_ns=round(ms * 1e6),
        uncounted_ns=round(ms * 1e6) if moved is None else 0,
        flop={dtype: flop} if flop else {},
        bytes=moved,
    )


def recorded(*rows: Work, calls: int = 1, ms: float | None = None, **more: Any) -> Recorded:
    whole = sum(each.total_ns for each in rows) / 1e6 / calls if ms is None else ms
    return Recorded(rows, calls, whole / 1e3, **more)


def found(*rows: Work, ms: float = 10.0, ceilings: Ceilings | None = CEILINGS, **more: Any) -> CallBounds:
    return bounds(recorded(*rows, ms=ms, **more), ms / 1e3, 2.0, ceilings)


def test_a_product_at_eight_tenths_of_the_peak_is_bound_by_compute():
    made = found(row(flop=0.8e9, moved=1e6))
    assert made.word == "compute"
    assert made.reasons["compute"] == pytest.approx(0.8)
    assert made.classes[0].word == "compute"


def test_an_addition_at_nine_tenths_of_the_bandwidth_is_bound_by_memory():
    made = found(row("elementwise", flop=1e7, moved=0.9e8))
    assert made.word == "memory"
    assert made.reasons["memory"] == pytest.approx(0.9)


def test_a_product_at_three_tenths_of_the_peak_is_not_bound_by_compute():
    made = found(row(flop=0.3e9, moved=1e6))
    assert made.word == "neither"
    assert made.reasons["compute"] == pytest.approx(0.3)
    assert sum(made.reasons.values()) == pytest.approx(0.3)


def test_time_outside_of_operators_is_overhead():
    made = found(row(ms=3.0, flop=0.2e9, moved=1e6))
    assert made.word == "overhead"
    assert made.outside == pytest.approx(0.7)
    assert made.reasons == pytest.approx({"compute": 0.2, "memory": 0.0, "overhead": 0.7, "threads": 0.0})


def test_many_small_operators_are_overhead_but_for_what_the_ceilings_ask():
    made = found(row("elementwise", moved=1e7, calls=2000))  # 5 microseconds each, a tenth of it moves bytes
    assert made.word == made.classes[0].word == "overhead"
    assert made.reasons["overhead"] == pytest.approx(0.9)
    assert made.reasons["memory"] == pytest.approx(0.1)


def test_one_thread_of_two_cores_is_bound_by_threads():
    made = found(row(flop=0.4e9, moved=1e6), threads=1)  # 0.8 of what one core can
    assert made.word == "threads"
    assert made.reasons["threads"] == pytest.approx(0.5)


def test_operators_that_leave_cores_idle_are_bound_by_threads_though_there_are_enough():
    made = found(row(flop=0.2e9, moved=1e6), threads=2, busy=1.0)
    assert made.word == "threads"
    assert made.classes[0].word == "neither"  # which ones they are is not seen
    assert found(row(flop=0.2e9, moved=1e6), threads=2, busy=2.0).word == "neither"


def test_threads_explain_no_time_that_is_explained_already():
    made = found(row(flop=0.8e9, moved=1e6), threads=1)
    assert made.word == "compute"
    assert made.reasons["threads"] == pytest.approx(0.2)


def test_work_that_nobody_counted_leaves_the_word_unknown():
    made = found(row("other", ms=7.0, moved=None), row(ms=3.0, flop=0.2e9, moved=1e6))
    assert made.word == "unknown"
    assert made.uncounted == pytest.approx(0.7)
    assert [each.word for each in made.classes] == ["unknown", "compute"]


def test_without_ceilings_only_overhead_and_threads_are_known():
    assert found(row(flop=0.8e9, moved=1e6), ceilings=None).word == "unknown"
    assert found(row(flop=0.8e9, moved=1e6), ceilings=None, threads=1).word == "threads"
    assert found(row(ms=2.0, flop=0.8e9, moved=1e6), ceilings=None).word == "overhead"


def test_a_product_in_a_type_whose_peak_is_not_known_is_not_counted():
    made = found(row(flop=0.8e9, moved=1e6, dtype="int4"))
    assert made.word == "unknown"
    assert made.uncounted == pytest.approx(1.0)


def test_data_in_caches_is_not_bound_by_memory():
    made = found(row("elementwise", flop=1e7, moved=5e8))  # five times the bandwidth of the memory
    assert made.word == "neither"
    assert made.reasons["memory"] == 0


def test_a_little_above_the_peak_is_at_the_peak_and_far_above_is_unknown():
    assert found(row(flop=1.1e9, moved=1e6)).reasons["compute"] == pytest.approx(1.0)
    above = found(row(flop=4e9, moved=2e9))
    assert above.word == "unknown"
    assert above.reasons["compute"] == 0


def test_a_recording_that_slows_calls_down_claims_less_and_not_more():
    rows = [row(ms=40.0, flop=1.6e9, moved=2e6, calls=2)]  # two calls of 20 ms; 10 ms when nobody looks
    made = bounds(Recorded(rows, 2, 25e-3), 10e-3, 2.0, CEILINGS)
    assert made.classes[0].seconds == pytest.approx(10e-3)
    assert made.classes[0].operators == 1
    assert made.reasons == pytest.approx({"compute": 0.4, "memory": 0, "overhead": 0, "threads": 0})
    assert made.roofline is not None
    assert made.roofline.operators[0].share == pytest.approx(0.4)


def test_time_that_recording_takes_outside_of_operators_is_no_overhead():
    made = bounds(Recorded([row(ms=6.0, flop=0.5e9, moved=1e6)], 1, 20e-3), 8e-3, 2.0, CEILINGS)
    assert made.outside == pytest.approx(0.25)  # 2 of the 8 ms of a call that nobody looks at
    assert made.word == "compute"


def test_a_recording_in_a_quieter_moment_keeps_its_shares():
    made = bounds(Recorded([row(ms=8.0, flop=0.6e9, moved=1e6)], 1, 10e-3), 20e-3, 2.0, CEILINGS)
    assert made.classes[0].share == pytest.approx(0.8)
    assert made.classes[0].seconds == pytest.approx(16e-3)
    assert made.outside == pytest.approx(0.2)


def test_operators_that_ran_at_the_same_time_take_no_more_than_the_call():
    made = bounds(Recorded([row(ms=8.0), row("copy", ms=12.0)], 1, 10e-3), 10e-3, 2.0, CEILINGS)
    assert sum(each.share for each in made.classes) == pytest.approx(1.0)
    assert made.outside == pytest.approx(0.0)


def test_classes_are_listed_by_time():
    made = found(row("copy", ms=2.0), row("matmul", ms=7.0), row("elementwise", ms=1.0))
    assert [each.kind for each in made.classes] == ["matmul", "copy", "elementwise"]
