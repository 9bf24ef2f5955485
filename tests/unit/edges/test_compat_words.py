"""Nested data as text in YAML's block style, and quantities as words."""

from __future__ import annotations

import yaml

from laptime.edges.pytorch_benchmark.results import block, duration, number, size


def test_results_are_one_line_a_value_and_read_back_as_yaml() -> None:
    long = "Intel(R) Xeon(R) CPU @ 2.20GHz, as long as no line of a terminal is: " + "x" * 99
    data = {"b": {"x": 1, "a": None}, "a": [{"name": "GPU", "memory": "80 MiB"}, 2.5], "on": long, "e": "1e3"}
    text = block(data)
    assert yaml.safe_load(text) == data
    assert [line.strip().partition(":")[0] for line in text.splitlines()] == [
        "a", "- memory", "name", "- 2.5", "b", "a", "x", "e", "'on'"
    ]  # fmt: skip


def test_quantities_carry_their_unit() -> None:
    assert number(5_288_548) == "5.29 M"
    assert number(12.3456) == "12.35"
    assert size(16 * 2**30) == "16.00 GiB"
    assert (duration(0.0743), duration(2.5), duration(3.1e-6)) == ("74.300 ms", "2.500 s", "3.100 us")
