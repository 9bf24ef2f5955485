"""Comparisons of two interleaved series: what is said, and when nothing may be said."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from laptime.analysis.compare import (
    DECISION_LEVEL,
    compare,
    describe,
    effect,
    judge,
    sentence,
)
from laptime.analysis.paired import MARGIN, Effect
from laptime.measure.metrics import LATENCY
from laptime.records.case import Case
from laptime.records.series import Label, Series


def series(
    level: float, *, seed: int, processes: int = 3, rounds: int = 6, label: int = 0, noise: float = 0.01
) -> Series:
    """Blocks of five samples in every round of every process."""
    draw = np.random.default_rng(seed)
    n = processes * rounds * 5
    return Series(
        metric=LATENCY,
        regime="isolated",
        samples=[float(v) for v in level * np.exp(noise * draw.standard_normal(n))],
        process=[p for p in range(processes) for _ in range(rounds * 5)],
        round=[p * rounds + r for p in range(processes) for r in range(rounds) for _ in range(5)],
        label=[label] * n if label else [],
    )


def case(target: str, latency: Series, batch: int = 1) -> Case:
    return Case(key=f"{target}/batch={batch}", target=target, axes={"batch": batch}, series=[latency])


def test_a_tenth_is_found_and_named_in_the_right_direction() -> None:
    found = compare(case("a", series(0.011, seed=1)), case("b", series(0.010, seed=2)))
    assert found is not None
    assert found.word == "faster"
    assert found.speedup == pytest.approx(1.1, rel=0.02)
    assert found.ci95[0] < 1.1 < found.ci95[1]
    turned = compare(case("b", series(0.010, seed=2)), case("a", series(0.011, seed=1)))
    assert turned is not None
    assert turned.word == "slower"
    assert turned.speedup == pytest.approx(1 / found.speedup)


def test_equals_are_proved_the_same_when_the_interval_lies_inside_the_margin() -> None:
    quiet = [series(0.010, seed=s, noise=0.001, processes=6) for s in (1, 2)]
    found = compare(case("a", quiet[0]), case("b", quiet[1]))
    assert found is not None
    assert found.word == "same"
    assert max(abs(math.log(end)) for end in found.ci95) < math.log1p(found.margin)


def test_unclear_is_not_same() -> None:
    noisy = [series(0.010, seed=s, noise=0.2, rounds=3) for s in (1, 2)]
    found = compare(case("a", noisy[0]), case("b", noisy[1]))
    assert found is not None
    assert found.word == "unclear"


def test_batch_sizes_are_compared_by_item() -> None:
    found = compare(case("a", series(0.010, seed=1)), case("a", series(0.040, seed=2), batch=8))
    assert found is not None
    assert found.metric == "time per item/isolated"
    assert found.speedup == pytest.approx(2.0, rel=0.02)


def test_instances_are_compared_by_what_all_of_them_do() -> None:
    one, two = series(0.010, seed=1), series(0.0125, seed=2)
    found = compare(case("a", one), structs.replace(case("a", two), axes={"batch": 1, "instances": 2}))
    assert found is not None
    assert found.metric == "time per item/isolated"
    assert found.speedup == pytest.approx(1.6, rel=0.02)
    assert found.word == "faster"


def test_a_side_without_usable_samples_is_no_crash() -> None:
    empty = Series(metric=LATENCY, regime="isolated", samples=[0.1], label=[int(Label.WARM_UP)])
    assert effect(empty, empty) is None


def test_blocks_of_one_process_out_of_three_say_nothing() -> None:
    """The first has twelve rounds; the others have three each, all of them disturbed."""
    left, right = (
        structs.replace(made, process=[max(0, each // 3 - 3) for each in made.round])
        for made in (series(0.011, seed=1), series(0.010, seed=2))
    )
    left = structs.replace(left, label=[int(Label.WAITED) if p > 0 else 0 for p in left.process])
    found = effect(left, right)
    assert found is not None
    assert found.processes == 1
    assert judge(found)[0] == "faster"  # the blocks that are left agree with each other ...
    assert "1 of 3" in found.doubt  # ... and are not enough
    compared = compare(case("a", left), case("b", right))
    assert compared is not None
    assert compared.word == "unclear"


def apart(latency: Series, *factors: float) -> Series:
    """The series with each process at a level of its own."""
    samples = [each * factors[p] for each, p in zip(latency.samples, latency.process, strict=True)]
    return structs.replace(latency, samples=samples)


def crowded(level: float, seed: int, processes: int = 7) -> Series:
    """Calls of which a tenth are left alone; neighbours make the rest up to ten times as long."""
    alone = series(level, seed=seed, processes=processes, rounds=12)
    draw = np.random.default_rng(seed + 100)
    slower = np.where(
        draw.random(len(alone.samples)) < 0.1, 1.0, np.exp(draw.uniform(0, 2.3, len(alone.samples)))
    )
    samples = [float(value) for value in np.array(alone.samples) * slower]
    return structs.replace(alone, samples=samples, label=[int(Label.WAITED)] * len(samples))


def test_on_a_crowded_machine_the_fastest_calls_of_processes_that_agree_decide() -> None:
    """Medians of such sides differ by tens of per cent, untouched calls by what is planted."""
    found = compare(case("a", crowded(0.0108, 1)), case("b", crowded(0.010, 2)))
    assert found is not None
    assert found.word == "faster"
    assert found.ci95[0] < 1.08 < found.ci95[1]
    assert found.ci95[1] - found.ci95[0] < 0.1
    assert "fastest 5%" in found.sentence
    equal = [
        compare(case("a", crowded(0.01, seed)), case("b", crowded(0.01, 50 + seed))) for seed in range(40)
    ]
    assert not [each for each in equal if each is None or each.word in ("faster", "slower")]


def test_on_a_crowded_machine_the_scatter_of_processes_is_taken_as_it_is() -> None:
    faster = case("b", apart(crowded(0.010, 2, 3), 1.0, 1.05, 0.96))
    found = compare(case("a", crowded(0.0108, 1, 3)), faster)
    assert found is not None
    assert found.word == "unclear"
    assert found.ci95[1] - found.ci95[0] > 0.15
    quiet = compare(case("a", series(0.0108, seed=1, rounds=12)), case("b", series(0.010, seed=2, rounds=12)))
    assert quiet is not None
    assert quiet.word == "faster"


def test_two_crowded_processes_are_too_few() -> None:
    found = compare(case("a", crowded(0.03, 1, 2)), case("b", crowded(0.010, 2, 2)))
    assert found is not None
    assert found.word == "unclear"
    assert "2 processes are too few" in found.sentence


def test_a_difference_that_95_percent_shows_and_99_does_not_is_unclear_and_says_so() -> None:
    baseline, candidate = case("a", series(0.01, seed=1)), case("b", series(0.01, seed=2))
    words = {}
    for error in (0.004, 0.0055, 0.02):
        measured = Effect(mean=-math.log(1.025), error=error, df=40, rounds=18, processes=3)
        words[error] = describe(baseline, candidate, "isolated", measured)
    assert [found.word for found in words.values()] == ["faster", "unclear", "unclear"]
    doubtful = words[0.0055]
    assert doubtful.ci95[0] > 1 + doubtful.margin  # 95 % alone would have decided
    assert "99%" in doubtful.sentence
    assert "99%" not in words[0.004].sentence + words[0.02].sentence


def test_the_words_are_defined_once_and_as_they_are_decided() -> None:
    docs = Path(__file__).resolve().parents[3] / "docs"
    defined = re.compile(r"\| `faster`.*\b9[59] % interval of the speedup")
    lines = [
        (page.name, line) for page in docs.rglob("*.md") for line in page.read_text("utf-8").splitlines()
    ]
    rows = [(name, line) for name, line in lines if defined.match(line)]
    assert [name for name, _ in rows] == ["reading.md"]
    assert f"{DECISION_LEVEL:.0%} interval".replace("%", " %") in rows[0][1]
    assert f"a margin of {MARGIN:.0%}".replace("%", " %") in rows[0][1]
    assert "95 % interval" in rows[0][1]


def test_large_ratios_are_not_told_to_the_last_digit() -> None:
    assert sentence("unclear", 11.684, (0.0412, 3152.37), 0.01) == "unclear: 11.7x the speed [0.04, 3,152]"
    assert sentence("slower", 0.5, (0.4, 0.625), 0.01) == "slower: 2.00x the time [1.60, 2.50]"
