from __future__ import annotations

import pytest

from laptime.kit.errors import UsageError
from laptime.kit.quantity import seconds, share, size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90s", 90.0),
        ("2m", 120.0),
        ("2 min", 120.0),
        ("1.5h", 5400.0),
        ("500ms", 0.5),
        ("10", 10.0),
        (".5S", 0.5),
        ("20us", 2e-5),
    ],
)
def test_duration_is_seconds(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", "0", "0s", "-1s", "1d", "s", "1e3s", "nan", "inf", "1,5s", "9" * 400, "1%"]
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration") as caught:
        seconds(text)
    assert "90s" in caught.value.next


@pytest.mark.parametrize(
    ("text", "value"), [("1%", 0.01), ("0.5 %", 0.005), ("0.02", 0.02), ("99.9%", 0.999)]
)
def test_percentage_is_a_ratio(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["0", "0%", "100%", "-1%", "1s", "", "%", "nan", "150%"])
def test_impossible_percentage_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a percentage"):
        share(text)


def test_bare_one_is_not_taken_for_one_percent() -> None:
    with pytest.raises(UsageError) as caught:
        share("1")
    assert caught.value.next == "did you mean 1%?"


@pytest.mark.parametrize(
    ("text", "value"),
    [("8GB", 8 * 10**9), ("8 GiB", 8 * 2**30), ("512m", 512 * 10**6), ("100", 100), ("1.5kb", 1500)],
)
def test_sizes_are_bytes_and_gb_is_not_gib(text: str, value: int) -> None:
    assert size(text) == value


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "0", "0.2", "8 furlongs", "8s"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        size(text)
