from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laptime.measure import loop


@pytest.mark.parametrize("synchronous", [True, False])
def test_isolated_times_every_call_on_its_own(clock: Any, program: Any, synchronous: bool) -> None:
    work = program([0.01, 0.02, 0.03], synchronous=synchronous)
    tape = loop.time_isolated(work, loop.Terms(seconds=0.055, min_calls=1, max_calls=99, clock=clock))
    assert tape.seconds == pytest.approx([0.01, 0.02, 0.03], abs=2e-5)
    assert tape.start == pytest.approx([100.0, 100.01, 100.03], abs=2e-5)
    assert tape.calls == [1, 1, 1]
    if not synchronous:
        assert work.syncs == [0, 1, 2, 3]


def test_isolated_makes_at_least_and_at_most_so_many_calls(clock: Any, program: Any) -> None:
    least = loop.time_isolated(program(0.1), loop.Terms(seconds=0.05, min_calls=4, max_calls=99, clock=clock))
    assert len(least.seconds) == 4
    most = loop.time_isolated(program(0.001), loop.Terms(seconds=10, min_calls=1, max_calls=7, clock=clock))
    assert len(most.seconds) == 7


@pytest.mark.parametrize("measure", [loop.time_isolated, loop.time_saturated])
def test_a_crawling_program_ends_the_block_before_its_wished_calls(
    clock: Any, program: Any, measure: Callable[..., loop.Tape]
) -> None:
    tape = measure(program(3.0), loop.Terms(seconds=0.1, min_calls=50, max_calls=99, clock=clock))
    assert len(tape.seconds) == 1


def test_looking_at_the_clock_adds_one_look_to_a_sample(clock: Any, program: Any) -> None:
    clock.tick = 1e-6
    tape = loop.time_isolated(program(0.001), loop.Terms(seconds=1, min_calls=1, max_calls=50, clock=clock))
    assert tape.seconds == pytest.approx([0.001001] * 50, abs=1e-9)


def test_saturated_blocks_last_about_a_block_and_are_synchronised_once(clock: Any, program: Any) -> None:
    work = program(0.001, synchronous=False)
    tape = loop.time_saturated(
        work, loop.Terms(seconds=0.0899, min_calls=1, max_calls=10**6, clock=clock), estimate=0.001
    )
    assert tape.calls == [30, 30, 30]
    assert tape.seconds == pytest.approx([0.001] * 3, abs=2e-5)
    assert work.syncs == [0, 30, 60, 90]


def test_saturated_measures_a_call_when_no_estimate_is_given(clock: Any, program: Any) -> None:
    work = program(0.009)
    tape = loop.time_saturated(work, loop.Terms(seconds=0.05, min_calls=1, max_calls=10**6, clock=clock))
    assert tape.calls == [3, 3]
    assert work.calls == 7


@pytest.mark.parametrize(("synchronous", "calls"), [(True, 1), (False, 3)])
def test_a_long_call_is_a_block_of_its_own_only_where_it_returns_with_its_result(
    clock: Any, program: Any, synchronous: bool, calls: int
) -> None:
    work = program(0.5, synchronous=synchronous)
    tape = loop.time_saturated(
        work, loop.Terms(seconds=0.1, min_calls=1, max_calls=99, clock=clock), estimate=0.5
    )
    assert tape.calls == [calls]
    assert tape.seconds == pytest.approx([0.5], abs=2e-5)


def test_saturated_never_makes_a_block_longer_than_the_most_calls(clock: Any, program: Any) -> None:
    tape = loop.time_saturated(
        program(1e-6), loop.Terms(seconds=1, min_calls=1, max_calls=5, clock=clock), estimate=1e-6
    )
    assert tape.calls == [5]


def test_paced_latency_counts_from_the_schedule(clock: Any, program: Any) -> None:
    """Calls every 100 ms; the second takes 250 ms: the third and the fourth start late, and say so."""
    work = program([0.02, 0.25, 0.02, 0.02, 0.02])
    tape = loop.time_paced(work, loop.Terms(seconds=0.5, min_calls=1, max_calls=99, clock=clock), rate=10)
    assert tape.seconds == pytest.approx([0.02, 0.25, 0.17, 0.09, 0.02], abs=2e-5)
    assert tape.late == pytest.approx([0, 0, 0.15, 0.07, 0], abs=2e-5)
    assert [b - a for a, b in zip(tape.start, tape.start[1:], strict=False)] == pytest.approx(
        [0.1] * 4, abs=2e-5
    )


def test_paced_at_a_rate_that_cannot_be_kept_falls_ever_farther_behind(clock: Any, program: Any) -> None:
    tape = loop.time_paced(
        program(0.02), loop.Terms(seconds=0.1, min_calls=1, max_calls=99, clock=clock), rate=100
    )
    assert tape.late == pytest.approx([0.01 * i for i in range(10)], abs=2e-5)
    assert tape.seconds == pytest.approx([0.02 + 0.01 * i for i in range(10)], abs=2e-5)


def test_paced_at_a_slow_rate_ends_in_time(clock: Any, program: Any) -> None:
    """One call in ten seconds: five calls would hold the run up for a minute."""
    tape = loop.time_paced(
        program(0.02), loop.Terms(seconds=0.5, min_calls=5, max_calls=99, clock=clock), rate=0.1
    )
    assert len(tape.seconds) == 1
    assert clock.time < 101


def test_paced_synchronises_every_call_of_a_device(clock: Any, program: Any) -> None:
    work = program(0.02, synchronous=False)
    tape = loop.time_paced(work, loop.Terms(seconds=0.3, min_calls=1, max_calls=99, clock=clock), rate=10)
    assert tape.seconds == pytest.approx([0.02] * 3, abs=2e-5)
    assert work.syncs == [0, 1, 2, 3]


def test_what_was_lost_in_a_stretch_is_spread_over_its_samples_by_their_length(
    clock: Any, program: Any, counters: Any
) -> None:
    def lose(number: int) -> None:
        if number == 1:
            counters.waited += 0.3

    work = program([0.01, 0.02, 0.03], before=lose)
    counters.cost = 1.0  # so dear that it is read at the ends only
    tape = loop.time_isolated(
        work, loop.Terms(seconds=0.055, min_calls=1, max_calls=99, evidence=counters, clock=clock)
    )
    assert tape.waited == pytest.approx([0.05, 0.10, 0.15], abs=2e-5)
    assert tape.stolen == [0, 0, 0]
    assert tape.throttled == []  # this system does not tell


def test_cheap_counters_are_read_around_every_long_call(clock: Any, program: Any, counters: Any) -> None:
    def lose(number: int) -> None:
        if number == 1:
            counters.waited += 0.015

    work = program([0.01, 0.02, 0.03], before=lose)
    tape = loop.time_isolated(
        work, loop.Terms(seconds=0.055, min_calls=1, max_calls=99, evidence=counters, clock=clock)
    )
    assert tape.waited == pytest.approx([0, 0.015, 0], abs=2e-5)


def test_reading_the_counters_stays_below_one_percent_of_the_calls(
    clock: Any, program: Any, counters: Any
) -> None:
    counters.cost = 5e-6
    tape = loop.time_isolated(
        program(2e-6), loop.Terms(seconds=0.02, min_calls=1, max_calls=10**6, evidence=counters, clock=clock)
    )
    assert counters.reads * counters.cost <= 0.011 * sum(tape.seconds) + 3 * counters.cost
    assert len(tape.waited) == len(tape.cpu) == len(tape.seconds)


def test_a_sample_has_the_slower_of_the_readings_around_it(
    clock: Any, program: Any, counters: Any, ruler: Any
) -> None:
    def slow(number: int) -> None:
        ruler.seconds = 1.5 if number in (2, 3) else 1.0

    tape = loop.time_isolated(
        program(0.02, before=slow),
        loop.Terms(seconds=1, min_calls=1, max_calls=6, evidence=counters, clock=clock, ruler=ruler),
    )
    assert tape.ruler == [1, 1, 1.5, 1.5, 1.5, 1]
    assert tape.seconds == pytest.approx([0.02] * 6, abs=2e-5)  # no reading falls into a sample
    assert tape.cpu == pytest.approx([0.02] * 6, abs=2e-5)


@pytest.mark.parametrize("regime", ["isolated", "saturated", "paced"])
def test_reading_the_ruler_stays_below_one_percent_of_the_time(
    clock: Any, program: Any, counters: Any, ruler: Any, regime: str
) -> None:
    more = {"rate": 400.0} if regime == "paced" else {}
    began = clock.time
    tape = getattr(loop, f"time_{regime}")(
        program(0.001),
        loop.Terms(seconds=1.0, min_calls=3, max_calls=10**6, evidence=counters, clock=clock, ruler=ruler),
        **more,
    )
    assert 20 < ruler.reads <= 0.011 * (clock.time - began) / ruler.cost + 2
    assert len(tape.ruler) == len(tape.seconds)


def test_cpu_time_of_a_call_is_told_beside_it(clock: Any, program: Any, counters: Any) -> None:
    """Two threads work for half of the call: as much CPU time as wall time; then one, alone, for half."""
    work = program(0.01)
    inner = work.call

    def call() -> None:
        inner()
        clock.used -= 0.005 if work.calls > 2 else 0.0

    work.call = call
    tape = loop.time_isolated(
        work, loop.Terms(seconds=0.035, min_calls=1, max_calls=9, evidence=counters, clock=clock)
    )
    assert tape.cpu == pytest.approx([0.01, 0.01, 0.005, 0.005], abs=2e-5)


@pytest.mark.parametrize("regime", ["isolated", "saturated", "paced"])
def test_columns_are_of_one_length(clock: Any, program: Any, counters: Any, regime: str) -> None:
    counters.throttled = 0.0
    more = {"rate": 100.0} if regime == "paced" else {}
    tape = getattr(loop, f"time_{regime}")(
        program(0.004),
        loop.Terms(seconds=0.2, min_calls=3, max_calls=99, evidence=counters, clock=clock),
        **more,
    )
    n = len(tape.seconds)
    assert n > 3
    for column in (tape.start, tape.calls, tape.cpu, tape.waited, tape.stolen, tape.throttled):
        assert len(column) == n


def test_what_a_call_raises_passes_through(clock: Any, program: Any) -> None:
    def fail(number: int) -> None:
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        loop.time_isolated(
            program(0.1, before=fail), loop.Terms(seconds=1, min_calls=1, max_calls=9, clock=clock)
        )


def test_calls_that_are_long_at_first_are_seen_to_be_short(clock: Any, program: Any) -> None:
    clock.tick = 1e-7
    cold = program(5e-6, before=lambda number: clock.spend(2e-5 if number < 20 else 0.0))
    assert loop.calls_inside(cold, clock) > 10


def test_as_many_samples_as_asked_are_made_of_calls_that_are_repeated(clock: Any, program: Any) -> None:
    tape = loop.time_isolated(
        program(1e-6), loop.Terms(seconds=1, min_calls=1, max_calls=20, clock=clock), inside=60
    )
    assert len(tape.seconds) == 20


def test_calls_that_are_short_for_the_clock_are_repeated_inside_a_sample(clock: Any, program: Any) -> None:
    clock.tick = 1e-7
    inside = loop.calls_inside(program(1e-6), clock)
    assert 50 <= inside <= 60
    assert loop.calls_inside(program(10e-6), clock) == 1
    assert loop.calls_inside(program(1e-6, synchronous=False), clock) == 1
    tape = loop.time_isolated(
        program(1e-6), loop.Terms(seconds=0.01, min_calls=1, max_calls=10**6, clock=clock), inside=inside
    )
    assert {*tape.calls} == {inside}
    assert tape.seconds == pytest.approx([1e-6] * len(tape.seconds), rel=0.01)
