from __future__ import annotations

from typing import Any

import pytest

from laptime.kit.errors import UsageError
from laptime.suites import QUICK_BUDGET, Benchmark, Suite, choose, digest, request
from laptime.suites.loading import load
from laptime.verbs.suite import OVERHEAD

SUITE = Suite(
    name="s",
    benchmark=[
        Benchmark(name="resnet18", target="a:b", batch=[8, 2], tags=["vision"]),
        Benchmark(name="bert", target="a:c", tags=["text", "large"], budget="90s"),
    ],
)


@pytest.mark.parametrize(
    ("match", "names"),
    [
        ([], ["resnet18", "bert"]),
        (["res"], ["resnet18"]),
        (["^BERT$"], ["bert"]),
        (["vision"], ["resnet18"]),
        (["visio"], []),
        (["text", "18"], ["resnet18", "bert"]),
    ],
)
def test_a_pattern_is_found_in_the_name_or_is_a_tag(match: list[str], names: list[str]) -> None:
    assert [each.name for each in choose(SUITE, match).benchmark] == names


def test_a_pattern_that_is_no_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="regular expression"):
        choose(SUITE, ["("])


def test_quick_takes_the_smallest_and_leaves_out_the_large() -> None:
    (only,) = choose(SUITE, quick=True).benchmark
    assert (only.name, only.batch, only.preset) == ("resnet18", 2, "quick")


def test_the_standard_suite_announces_about_two_minutes_when_quick() -> None:
    (standard,) = load("standard")
    quick = choose(standard, quick=True).benchmark
    assert {"inference", "training"} <= {tag for each in quick for tag in each.tags}
    assert len(quick) * (QUICK_BUDGET + OVERHEAD) <= 150


def test_a_benchmark_asks_bench_for_what_it_says() -> None:
    each = Benchmark(
        name="x", target="a:b", dtype=["float32", "bfloat16"], threads=2, precision="1%", budget="90s"
    )
    made = request(SUITE, each, trials=3, timeout=7.0)
    assert made.targets == ["a:b"]
    assert made.batch is None, "as the inputs are"
    assert made.dtype == ["float32", "bfloat16"]
    assert (made.threads, made.precision, made.budget) == ([2], 0.01, 90.0)
    assert (made.processes, made.timeout, made.name) == (3, 7.0, "s:x")
    assert made.origins["budget"] == "argument"


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"budget": "soon"}, "'soon' is not a duration"),
        ({"regression": "400%"}, "'400%' is not a percentage"),
        ({"max": {"latency": "3 GiB"}}, "'3 GiB' is not an amount in s"),
        ({"min": {"throughput": "3 ms"}}, "'3 ms' is not an amount in 1/s"),
    ],
)
def test_a_quantity_that_cannot_be_read_is_told_with_its_benchmark(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=f"benchmark 'x': {what}"):
        request(SUITE, Benchmark(name="x", target="a:b", **wrong))


def test_another_name_asks_the_same_question_and_another_batch_does_not() -> None:
    first, second = (request(SUITE, Benchmark(name=name, target="a:b")) for name in "xy")
    other = request(SUITE, Benchmark(name="x", target="a:b", batch=2))
    assert digest(first, []) == digest(second, [])
    assert digest(first, []) != digest(other, [])
