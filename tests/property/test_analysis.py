from __future__ import annotations

import math
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.runs import LATENCY, timings
from fixtures.runs import case as made
from laptime.analysis.compare import compare, judge
from laptime.analysis.evidence import select
from laptime.analysis.paired import Effect
from laptime.analysis.quantiles import interval, median, quantile
from laptime.analysis.steady import settle
from laptime.analysis.summary import summarize
from laptime.records.case import Case
from laptime.records.series import DISTURBED, EXCLUDED, Label, Series

seconds = st.floats(min_value=1e-6, max_value=100, allow_nan=False)
many = st.lists(seconds, min_size=6, max_size=200)
powers = st.integers(min_value=-8, max_value=8).map(lambda power: 2.0**power)
"""Factors that change no rounding."""


@given(many, st.sampled_from([0.05, 0.5, 0.9]))
def test_interval_contains_the_quantile(values: list[float], q: float) -> None:
    samples = np.array(values)
    ends = interval(samples, q)
    if ends is not None:
        assert ends[0] <= quantile(samples, q) <= ends[1]


@given(st.lists(st.floats(width=64), min_size=1, max_size=40), st.floats(0, 1))
def test_quantile_and_median_are_those_of_numpy_to_the_last_bit(values: list[float], q: float) -> None:
    samples = np.array(values)
    with np.errstate(all="ignore"):
        expected = [np.quantile(samples, q), np.median(samples)]
    assert np.array_equal([quantile(samples, q), median(samples)], expected, equal_nan=True)


@given(many, powers)
def test_interval_scales_with_its_unit(values: list[float], factor: float) -> None:
    samples = np.array(values)
    one, other = interval(samples, 0.5), interval(samples * factor, 0.5)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert other == (one[0] * factor, one[1] * factor)


@given(many, st.randoms(use_true_random=False))
def test_interval_of_independent_samples_does_not_depend_on_their_order(
    values: list[float], dice: Random
) -> None:
    shuffled = list(values)
    dice.shuffle(shuffled)
    n = len(values)
    assert interval(np.array(values), 0.5, effective=n) == interval(np.array(shuffled), 0.5, effective=n)


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.integers(0, 200), st.integers(0, 40), st.floats(1, 3), powers)
def test_where_warm_up_ends_does_not_depend_on_the_unit(
    seed: int, n: int, warm: int, factor: float, unit: float
) -> None:
    samples = np.random.default_rng(seed).lognormal(-4, 0.05, n)
    samples[:warm] *= factor
    one, other = settle(samples), settle(samples * unit)
    assert (one.start, one.kind) == (other.start, other.kind)


@given(st.lists(seconds, max_size=120))
def test_the_steady_part_is_at_least_a_half_or_the_rest_of_all_cuts(values: list[float]) -> None:
    found = settle(np.array(values))
    assert 0 <= found.start <= max(0, len(values) - 5)
    assert math.isfinite(found.change)


labels = st.sampled_from([0, *(int(flag) for flag in Label if flag)])


@given(st.lists(st.tuples(seconds, labels), min_size=1, max_size=60))
def test_evidence_never_looks_at_the_size_of_a_sample(rows: list[tuple[float, int]]) -> None:
    label = [bits for _, bits in rows]
    series = Series(metric=LATENCY, regime="isolated", samples=[value for value, _ in rows], label=label)
    turned = Series(metric=LATENCY, regime="isolated", samples=[1 / value for value, _ in rows], label=label)
    one, other = select(series), select(turned)
    assert one.positions.tolist() == other.positions.tolist()
    assert one.basis == other.basis
    assert len(one.values) > 0
    if one.basis == "undisturbed":
        assert not any(label[i] & int(EXCLUDED) for i in one.positions)
    assert 0 <= one.disturbed <= 1
    settled = [bits for bits in label if not bits & int(EXCLUDED & ~DISTURBED)]
    assert one.disturbed * len(settled) == sum(bool(bits & int(DISTURBED)) for bits in settled)


def side(level: float, seed: int, name: str, **shape: float) -> Case:
    return made(timings(level, seed=seed, **shape), target=name)  # type: ignore[arg-type]


@settings(max_examples=40)
@given(st.floats(0.5, 2.0), st.integers(0, 1000), st.floats(0.001, 0.2))
def test_swapping_the_sides_turns_the_answer_round(ratio: float, seed: int, spread: float) -> None:
    a = side(0.02, seed, "a", spread=spread)
    b = side(0.02 / ratio, seed + 1, "b", spread=spread)
    there, back = compare(a, b), compare(b, a)
    assert there is not None
    assert back is not None
    assert math.isclose(there.speedup * back.speedup, 1, rel_tol=1e-9)
    assert math.isclose(there.ci95[0] * back.ci95[1], 1, rel_tol=1e-9)
    turned = {"faster": "slower", "slower": "faster", "same": "same", "unclear": "unclear"}
    assert back.word == turned[there.word]


@settings(max_examples=25)
@given(powers, st.integers(0, 1000))
def test_comparison_does_not_depend_on_the_unit(factor: float, seed: int) -> None:
    one = compare(side(0.02, seed, "a"), side(0.021, seed + 1, "b"))
    other = compare(side(0.02 * factor, seed, "a"), side(0.021 * factor, seed + 1, "b"))
    assert one is not None
    assert other is not None
    assert one.word == other.word
    assert math.isclose(one.speedup, other.speedup, rel_tol=1e-9)


@given(st.floats(-1, 1), st.floats(1e-5, 1), st.floats(1, 100), st.floats(1e-3, 0.2))
def test_words_follow_from_the_interval(estimate: float, error: float, df: float, margin: float) -> None:
    word, (low, high) = judge(Effect(-estimate, error, df, 10, 1), margin)
    assert low < math.exp(estimate) < high
    inside = 1 / (1 + margin) < low and high < 1 + margin
    if word == "same":
        assert inside
    if word == "unclear":
        assert not inside
    if word == "faster":
        assert low > 1 + margin
    if word == "slower":
        assert high < 1 / (1 + margin)


@settings(max_examples=40)
@given(
    st.integers(1, 300),
    st.integers(0, 100),
    st.sampled_from([1, 2, 3]),
    st.integers(0, 12),
    st.floats(0, 1),
    st.sampled_from(["isolated", "saturated", "paced", "device"]),
)
def test_every_number_lies_within_its_interval(
    n: int, seed: int, processes: int, warm_up: int, disturbed: float, regime: str
) -> None:
    series = timings(
        0.01, n=n, seed=seed, processes=processes, warm_up=warm_up, disturbed=disturbed, regime=regime
    )
    for stat in summarize(made(series)).values():
        if stat.value is None:
            assert stat.note
        elif stat.ci95 is not None:
            slack = 1e-9 * abs(stat.value)
            assert stat.ci95[0] - slack <= stat.value <= stat.ci95[1] + slack, stat
