"""What a terminal shows unless all is asked for: the answer, its numbers, the reason, what is next."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from fixtures import profiles, runs, tunings
from laptime.records.run import Run
from laptime.reports.documents import document
from laptime.reports.formats import text
from laptime.reports.text_layout import in_ascii

SESSIONS: dict[str, Callable[[], Run]] = {
    **runs.scenarios(),
    "profile": profiles.example,
    "tuning": tunings.full,
    "gate": tunings.gate_failed,
}


@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_the_answer_takes_a_dozen_lines_and_the_whole_many_more(name: str) -> None:
    run = SESSIONS[name]()
    brief, whole = text.render(run, brief=True).splitlines(), text.render(run).splitlines()
    assert len(brief) <= 12
    assert len(brief) < len(whole)
    assert "--details" in brief[-1]
    assert run.trust in "\n".join(brief) or run.profile or run.tuning


def test_one_case_takes_five_lines() -> None:
    lines = text.render(runs.trusted(), brief=True).splitlines()
    assert len(lines) <= 5
    assert lines[0].startswith(
        "latency     26.29 [26.24, 26.34] ms a call (isolated), 38.80 [38.74, 38.85]/s"
    )
    assert any(line.startswith("trusted") for line in lines)


def test_a_comparison_begins_with_its_word_and_then_says_whether_to_trust_it() -> None:
    run = runs.scenarios()["compared"]()
    one = structs.replace(run, comparisons=run.comparisons[:1])
    verdict = document(one).verdict
    assert verdict.word == "faster"
    assert "1.25x the speed [1.24, 1.26]" in verdict.sentence
    lines = text.render(one, brief=True).splitlines()
    assert lines[0].startswith("faster")
    assert any(line.startswith("trusted") for line in lines[1:3])


def test_sizes_of_one_batch_sweep_answer_how_fast_and_not_which() -> None:
    run = runs.scenarios()["compared"]()
    sweep = [structs.replace(each, metric="time per item, isolated") for each in run.comparisons]
    assert document(structs.replace(run, comparisons=sweep)).verdict.word == run.trust


def test_a_check_passed_or_not() -> None:
    run = runs.trusted()
    from laptime.records.check import Verdict

    held = Verdict(kind="max", case=run.cases[0].key, metric="latency", word="kept")
    for word, said in (("kept", "passed"), ("broken", "not passed"), ("undecided", "undecided")):
        verdicts = [structs.replace(held, word=word)]
        assert document(structs.replace(run, verdicts=verdicts)).verdict.word == said


@pytest.mark.parametrize("name", sorted(SESSIONS))
@pytest.mark.parametrize("brief", [True, False])
def test_a_terminal_without_unicode_gets_none(name: str, brief: bool) -> None:
    assert text.render(SESSIONS[name](), brief=brief, unicode=False).isascii()


def test_signs_have_words_in_ascii() -> None:
    assert in_ascii("±2 % · a → b, 26 µs é") == "+-2 % | a -> b, 26 us e"
