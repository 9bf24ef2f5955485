"""Where a change that is only ever suggested stands in the ladder; whether a session was alone."""

from __future__ import annotations

import os

import pytest

from laptime.records.tuning import Rung
from laptime.tuning.script.records import with_suggested
from laptime.tuning.session.subject import quiet_check

SUGGESTED = Rung(name="defer_logging", verdict="suggested", bound=0.005)


def names(ladder: list[Rung], suggested: list[Rung]) -> list[str]:
    return [rung.name for rung in with_suggested(ladder, suggested)]


def test_a_suggestion_that_could_save_most_stands_first() -> None:
    ladder = [Rung(name="identity", bound=0.0), Rung(name="compile", bound=0.004)]
    assert names(ladder, [SUGGESTED]) == ["defer_logging", "identity", "compile"]
    assert names([], [SUGGESTED]) == ["defer_logging"]


def test_a_smaller_one_stands_at_the_end() -> None:
    ladder = [Rung(name="identity", bound=0.0), Rung(name="compile", bound=0.006), Rung(name="threads")]
    assert names(ladder, [SUGGESTED]) == ["identity", "compile", "threads", "defer_logging"]


@pytest.mark.parametrize(("others", "is_told"), [(None, False), (0.05, False), (1.6, True)])
def test_a_session_beside_busy_programs_says_so(
    others: float | None, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    told = quiet_check(others)
    assert bool(told) == is_told
    if told:
        assert told[0].outcome == "warn"
        assert "1.6 of 2 CPUs" in told[0].sentence
