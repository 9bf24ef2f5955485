"""One list of verdict words: terminal and page colour each of them alike."""

from __future__ import annotations

import re

import pytest

from fixtures import runs
from laptime.records.quantity import Judgement
from laptime.reports import text_layout
from laptime.reports._words import TONES
from laptime.reports.formats import text
from laptime.reports.page.render import asset

COLOURS = {"trusted": "green", "noisy": "yellow", "invalid": "red"}


@pytest.mark.parametrize("word", sorted(TONES))
def test_page_and_terminal_colour_a_word_alike(word: str) -> None:
    rules = re.findall(r"([^{}]*)\{\s*color: var\(--([\w-]+)\);\s*\}", asset("document.css"))
    colours = [colour for names, colour in rules if re.search(rf"\.word\.{word}(?![\w-])", names)]
    assert colours == [TONES[word]]
    assert text_layout.style_of(word) == COLOURS[TONES[word]]


def test_every_judgement_has_a_colour_of_its_own() -> None:
    assert [TONES[word] for word in Judgement] == ["trusted", "invalid", "noisy"]


def test_a_word_without_a_tone_has_no_colour() -> None:
    assert text_layout.style_of("same") == text_layout.style_of("") == ""


def test_a_verdict_in_colour_says_what_it_says_without() -> None:
    run = runs.checked()
    assert "\x1b[1;31m" in text.render(run, color=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", text.render(run, color=True)) == text.render(run)
