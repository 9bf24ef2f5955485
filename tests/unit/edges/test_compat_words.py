"""Nested data as text in YAML's block style."""

from __future__ import annotations

from laptime.edges.pytorch_benchmark.results import block, duration, number, size


def test_nesting_lists_and_scalars_read_as_yaml() -> None:
    data = {
        "b": {"x": 1, "a": None},
        "a": [{"name": "GPU", "memory": "80 MiB"}, 2.5],
        "empty": {},
        "on": True,
    }
    assert block(data) == (
        'a:\n- memory: "80 MiB"\n  name: GPU\n- 2.5\nb:\n  a: null\n  x: 1\nempty: {}\n"on": true\n'
    )


def test_strings_that_read_as_something_else_are_quoted() -> None:
    for text in ("null", "12", "a: b", "", "yes", "#x", "- a", "1.5 s", "a\nb", "x #y"):
        assert block({"k": text}) == "k: " + __import__("json").dumps(text) + "\n", text
    assert block({"k": "Intel(R) Xeon(R) CPU @"}) == 'k: "Intel(R) Xeon(R) CPU @"\n'
    assert block({"k": "Intel(R) Xeon(R)"}) == "k: Intel(R) Xeon(R)\n"


def test_quantities_carry_their_unit() -> None:
    assert number(5_288_548) == "5.29 M"
    assert number(12.3456) == "12.35"
    assert size(16 * 2**30) == "16.00 GiB"
    assert (duration(0.0743), duration(2.5), duration(3.1e-6)) == ("74.300 ms", "2.500 s", "3.100 us")
