"""Laws of what bounds a call, for any rows."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from laptime.analysis.bounds import HALF, Recorded, bounds
from laptime.records.overview import CallBounds, Ceilings, ClassBound, OperatorClass, Work

AMOUNTS = st.one_of(st.just(0.0), st.floats(1.0, 1e13))


@st.composite
def rows(draw):
    ns = draw(st.integers(0, 10**9))
    is_counted = draw(st.booleans())
    return Work(
        id=str(draw(st.integers(0, 5))),
        kind=draw(st.sampled_from(get_args(OperatorClass))),
        name="operator",
        calls=draw(st.integers(1, 10**5)),
        total_ns=ns,
        uncounted_ns=0 if is_counted else ns,
        flop={draw(st.sampled_from(["float32", "int4"])): draw(AMOUNTS)} if is_counted else {},
        bytes=draw(AMOUNTS) if is_counted else None,
    )


recordings = st.builds(
    Recorded,
    rows=st.lists(rows(), max_size=8),
    calls=st.integers(1, 20),
    seconds=st.floats(1e-6, 10.0),
    threads=st.integers(0, 8),
    busy=st.one_of(st.none(), st.floats(0.0, 10.0)),
)
CEILINGS = st.one_of(
    st.none(),
    st.builds(
        Ceilings,
        device=st.just("cores"),
        flops=st.just({"float32": 1e11}),
        bandwidth=st.one_of(st.none(), st.floats(1e8, 1e12)),
        source=st.just("made up"),
    ),
)


@given(recordings, st.floats(1e-6, 10.0), st.floats(0.5, 8.0), CEILINGS)
def test_no_part_of_a_call_is_counted_twice(recorded, call, cores, ceilings):
    made = bounds(recorded, call, cores, ceilings)
    parts: list[CallBounds | ClassBound] = [made, *made.classes]
    for each in parts:
        assert all(share >= -1e-9 for share in each.reasons.values())
        assert sum(each.reasons.values()) <= 1 + 1e-6
        assert each.uncounted <= 1 + 1e-6
    assert sum(each.share for each in made.classes) <= 1 + 1e-6
    assert sum(each.share for each in made.classes) + made.outside >= 1 - 1e-6


@given(recordings, st.floats(1e-6, 10.0), st.floats(0.5, 8.0), CEILINGS)
def test_a_word_has_half_of_the_time(recorded, call, cores, ceilings):
    made = bounds(recorded, call, cores, ceilings)
    parts: list[CallBounds | ClassBound] = [made, *made.classes]
    for each in parts:
        if each.word in each.reasons:
            assert each.reasons[each.word] >= HALF
        else:
            assert max(each.reasons.values()) < HALF


@given(recordings, st.floats(1e-6, 10.0), st.floats(0.5, 8.0))
def test_without_ceilings_nothing_is_bound_by_them(recorded, call, cores):
    made = bounds(recorded, call, cores, None)
    assert made.word not in ("compute", "memory")
