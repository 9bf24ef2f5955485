"""Does the tuned server answer the same? What varies by itself is left out, and said."""

from __future__ import annotations

from typing import Any

from laptime.tuning.server.outputs import gate

Answers = list[dict[str, Any]]
SAME: Answers = [{"text": "a b", "output tokens": 2}, {"text": "c d", "output tokens": 2}]


def texts(*said: str, tokens: int = 2) -> Answers:
    return [{"text": each, "output tokens": tokens} for each in said]


def test_the_same_answers_pass() -> None:
    made = gate([SAME, SAME], SAME, differs=False)
    assert made.word == "passed"
    assert [check.sentence for check in made.checks] == [
        "the server as it is, asked after 2 starts, gave the same answers",
        "2 answers came out the same: output tokens, text",
    ]


def test_another_text_fails_and_is_named() -> None:
    made = gate([SAME, SAME], texts("a b", "c X"), differs=False)
    assert (made.word, made.reason) == ("failed", "1 of 2 answers came out different in text")


def test_texts_that_vary_by_themselves_are_left_out() -> None:
    made = gate([SAME, texts("x y", "z w")], texts("q q", "q q"), differs=False)
    assert made.word == "passed"
    assert "differs in text: left out" in made.checks[0].sentence
    assert made.checks[1].sentence == "2 answers came out the same: output tokens"
    assert gate([SAME, texts("x", "z")], texts("q", "q", tokens=1), differs=False).word == "failed"


def test_where_nothing_repeats_itself_nothing_is_known() -> None:
    made = gate([[{"id": 1}], [{"id": 2}]], [{"id": 3}], differs=False)
    assert made.word == "undecided"
    assert "in every part" in made.reason


def test_lengths_alone_where_answers_may_differ() -> None:
    assert gate([SAME, SAME], texts("q", "r"), differs=True).word == "passed"
    assert gate([SAME, SAME], texts("q", "r", tokens=1), differs=True).word == "failed"
    assert gate([SAME, SAME], SAME, differs=True).numerics == "precision"


def test_a_part_that_is_missing_is_a_difference() -> None:
    assert gate([SAME, SAME], [{"text": "a b"}, SAME[1]], differs=False).word == "failed"
