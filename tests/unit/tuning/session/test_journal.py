"""When a session of `tune` can be resumed."""

from __future__ import annotations

from msgspec import structs

from fixtures import tunings
from laptime.tuning.session.tune import is_over


def test_a_session_that_found_its_answer_is_over():
    assert is_over(tunings.full())
    assert is_over(tunings.nothing())


def test_what_the_budget_ended_or_what_is_open_can_be_resumed():
    assert not is_over(tunings.interrupted())
    full = tunings.full()
    assert not is_over(structs.replace(full, tuning=structs.replace(full.tuning, ended="budget")))
    speedup = structs.replace(full.tuning.speedup, word="unclear")
    assert not is_over(structs.replace(full, tuning=structs.replace(full.tuning, speedup=speedup)))
