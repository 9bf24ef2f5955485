"""What a few paired rounds say."""

from __future__ import annotations

import math
import random

import pytest

from laptime.analysis.paired import from_few_rounds, from_many_rounds, from_pairs, spread


def test_a_clean_effect_is_found_with_its_interval() -> None:
    found = from_few_rounds([math.log(0.8)] * 6, [0, 1, 2, 3, 4, 5], 0.01)
    assert found.speedup == pytest.approx(1.25)
    assert found.ci95[0] < 1.25 < found.ci95[1]
    assert found.ci95[0] > 1.2


def test_even_rounds_by_luck_do_not_make_the_interval_narrower_than_the_noise_allows() -> None:
    found = from_few_rounds([0.0] * 6, list(range(6)), 0.05)
    assert found.error > 0.5 * 0.05 / math.sqrt(6)


def test_one_spike_moves_neither_the_mean_nor_the_verdict() -> None:
    rounds = [-0.10, -0.11, -0.09, -0.10, -0.105, -0.095, -0.10, -0.11]
    clean = from_few_rounds(rounds, list(range(8)), 0.01)
    hit = from_few_rounds([*rounds[:-1], 0.9], list(range(8)), 0.01)
    assert abs(hit.mean - clean.mean) < 0.01
    assert hit.upper(0.025) < -0.05


def test_rounds_of_one_process_are_worth_less_than_those_of_fresh_ones() -> None:
    noise = random.Random(1)
    logs = [noise.gauss(-0.02, 0.003) for _ in range(12)]
    one = from_few_rounds(logs, [0] * 12, 0.003)
    fresh = from_few_rounds(logs, list(range(12)), 0.003)
    assert one.error > 2 * fresh.error
    # However many rounds: the process stays the same one.
    many = from_few_rounds(logs * 10, [0] * 120, 0.003)
    assert many.error > 0.004


def test_processes_that_differ_widen_the_interval() -> None:
    inside = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    alike = from_few_rounds([-0.05, -0.051, -0.049] * 3, inside, 0.002)
    apart = from_few_rounds([-0.15, -0.151, -0.149, -0.05, -0.051, -0.049, 0.05, 0.051, 0.049], inside, 0.002)
    assert apart.error > 3 * alike.error


def test_intervals_hold_the_truth_in_heavy_tails() -> None:
    noise, held = random.Random(7), 0
    for _ in range(400):
        logs = [
            math.log(0.9)
            + noise.gauss(0, 0.03)
            + (noise.choice((-1, 1)) * noise.expovariate(7) if noise.random() < 0.12 else 0)
            for _ in range(9)
        ]
        low, high = from_few_rounds(logs, list(range(9)), 0.03).ci95
        held += low <= 1 / 0.9 <= high
    # 95 %: fewer than 366 of 400 in one of a thousand cases.
    assert held >= 366


def test_spread_sets_spikes_aside_and_wants_four_rounds() -> None:
    assert spread([0.0, 0.1, -0.1]) == 0.0
    noise = random.Random(3)
    logs = [noise.gauss(0, 0.05) for _ in range(200)]
    assert spread(logs) == pytest.approx(0.05, rel=0.2)
    assert spread([*logs[:-1], 9.0]) == pytest.approx(spread(logs), rel=0.05)


def test_a_pair_of_processes_that_lies_far_off_does_not_widen_the_interval_of_ten() -> None:
    """One of sixteen pairs of a program with itself was 27 % apart, the others 2 % (vCPUs of an EPYC)."""
    logs = [0.02 * (-1) ** number for number in range(15)]
    assert from_pairs([*logs, -0.27]).reach(0.025) < 0.02
    assert from_pairs([*logs[:9], -0.27]).reach(0.025) < 0.03
    assert from_pairs([*logs[:8], -0.27]).reach(0.025) > 0.05  # of nine it is taken as measured


@pytest.mark.parametrize("number", [3, 5, 7, 9, 11, 16])
def test_intervals_of_pairs_hold_the_truth_and_equal_sides_are_seldom_different(number: int) -> None:
    noise, held, false = random.Random(number), 0, 0
    for _ in range(2000):
        effect = from_pairs([noise.gauss(0, 0.03) for _ in range(number)])
        held += effect.lower(0.025) <= 0 <= effect.upper(0.025)
        false += not effect.lower(0.005) <= 0 <= effect.upper(0.005)
    assert 0.93 <= held / 2000 <= 0.97
    assert false / 2000 <= 0.02


def test_many_processes_are_taken_as_far_apart_as_they_are() -> None:
    """Of three, an expectation of half a per cent speaks with them; it does not of eight."""
    levels = [0.05 * (-1) ** number for number in range(8)]
    logs = [level + 1e-4 * number for level in levels for number in range(10)]
    processes = [number for number in range(8) for _ in range(10)]
    effect = from_many_rounds(logs, processes)
    assert (effect.rounds, effect.processes) == (80, 8)
    assert effect.reach(0.025) == pytest.approx(from_pairs(levels).reach(0.025), rel=0.05)
