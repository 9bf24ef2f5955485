"""What a terminal shows unless all is asked for: the answer, its numbers, the reason, what is next."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from fixtures import pages, profiles, runs, tunings
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
    assert len(brief) <= 13
    assert len(brief) < len(whole)
    assert "--details" in brief[-1]
    word = "failed" if run.status == "failed" else run.trust
    assert word in "\n".join(brief) or run.profile or run.tuning


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
    from laptime.records.quantity import Judgement

    held = Verdict(kind="max", case=run.cases[0].key, metric="latency", word=Judgement.KEPT)
    for word, said in (("kept", "passed"), ("broken", "not passed"), ("undecided", "undecided")):
        verdicts = [structs.replace(held, word=word)]
        assert document(structs.replace(run, verdicts=verdicts)).verdict.word == said


@pytest.mark.parametrize("name", sorted(SESSIONS))
@pytest.mark.parametrize("brief", [True, False])
def test_a_terminal_without_unicode_gets_none(name: str, brief: bool) -> None:
    assert text.render(SESSIONS[name](), brief=brief, unicode=False).isascii()


def test_signs_have_words_in_ascii() -> None:
    assert in_ascii("±2 % · a → b, 26 µs é") == "+-2 % | a -> b, 26 us e"


def test_several_cases_begin_with_the_best_of_them() -> None:
    lines = text.render(structs.replace(runs.batches(), findings=[]), brief=True).splitlines()
    assert lines[0].startswith("best        26.35 [26.29, 26.42] ms (isolated, batch 1); 64.5 [64.3, 64.6]/s")
    assert lines[0].endswith("(isolated, batch 32)")


def test_a_size_that_is_as_good_is_named_beside_the_best() -> None:
    run = structs.replace(runs.batches(), findings=[])
    cases = [
        structs.replace(case, series=run.cases[0].series) if case.axes["batch"] == 2 else case
        for case in run.cases
    ]
    line = text.render(structs.replace(run, cases=cases), brief=True).partition("\n\n")[0]
    assert "batch 2 is" in line or "batch 1 is" in line


def test_the_best_of_what_means_nothing_is_not_said() -> None:
    run = runs.batches()
    bad = structs.replace(runs.invalid().cases[0].checks[0], outcome="fail")
    cases = [structs.replace(case, checks=[bad]) for case in run.cases]
    assert "best " not in text.render(structs.replace(run, cases=cases), brief=True)


@pytest.mark.parametrize("kind", ["load", "cost", "cost-cores", "cost-tuned"])
def test_load_and_cost_answer_in_the_first_line_and_in_few_more(kind: str) -> None:
    lines = text.render_document(pages.documents()[kind](), brief=True, width=120).splitlines()
    assert any(letter.isdigit() for letter in lines[0])
    numbers = [
        line for line in lines if not line.startswith(("next", "warning", " " * 12, "--details", "Saved"))
    ]
    assert len(numbers) <= 10
    assert lines[0].startswith({"load": "noisy       median 85", "cost-tuned": "2.31x cheaper"}.get(kind, ""))
