"""Seconds of a session are counted once."""

from __future__ import annotations

import time

import pytest

from laptime.tuning.time_accounting import TimeAccounting


@pytest.fixture
def accounting(monkeypatch: pytest.MonkeyPatch) -> TimeAccounting:
    """Every look at the clock is a second after the one before."""
    seconds = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    return TimeAccounting()


def test_what_is_inside_another_activity_belongs_to_it(accounting: TimeAccounting) -> None:
    with accounting.spent_on("measure"), accounting.spent_on("race"):
        time.monotonic()
    assert accounting.seconds == {"measure": 2.0}


def test_what_is_spent_apart_is_taken_from_what_is_around_it(accounting: TimeAccounting) -> None:
    with accounting.spent_on("race"), accounting.spent_apart_on("build"):
        time.monotonic()
    assert accounting.seconds == {"race": 2.0, "build": 2.0}
    with accounting.spent_on("race"):
        accounting.add_apart("compile", 0.5)
    assert accounting.seconds == {"race": 2.5, "build": 2.0, "compile": 0.5}
