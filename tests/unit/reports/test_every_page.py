"""Every kind of page: titles, names of drawings, texts of drawings that do not collide, shared axes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from msgspec import structs

from fixtures import pages, runs
from laptime import reports
from laptime.records.run import Run
from laptime.reports.documents.bench import sample_chart
from laptime.reports.formats import html
from laptime.reports.page.render import render
from laptime.reports.page.svg import HALF, LETTER, NARROW

CSS = (Path(reports.__file__).parent / "assets" / "document.css").read_text()
KINDS = sorted(pages.documents())
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


@cache
def source(kind: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAPTIME_CACHE", "/nonexistent")
        patch.setenv("LAPTIME_HOME", "/nonexistent")
        return render(pages.documents()[kind]())


class Words(NamedTuple):
    """A text of a drawing and the box that it takes, with letters of average width."""

    text: str
    left: float
    right: float
    y: float


def drawings(kind: str) -> Iterator[ElementTree.Element]:
    return (ElementTree.fromstring(text) for text in SVG.findall(source(kind)))


def words(drawing: ElementTree.Element) -> list[Words]:
    found = []
    for each in drawing.iter("text"):
        text, classes, x = each.text or "", (each.get("class") or "").split(), float(each.get("x", 0))
        wide = len(text) * LETTER * (0.9 if "small" in classes else 1.0)
        left = x - wide if "end" in classes else x - wide / 2 if "middle" in classes else x
        found.append(Words(text, left, left + wide, float(each.get("y", 0))))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_a_language_one_heading_and_a_title_that_begins_with_the_answer(kind: str) -> None:
    page = source(kind)
    assert '<html lang="en">' in page
    assert page.count("<h1>") == 1
    answer = re.search(r'<p class="word">(.*?)</p>', page)
    title = re.search(r"<title>(.*?)</title>", page)
    assert answer is not None
    assert title is not None
    word, _, figure = answer[1].partition(' <b class="figure">')
    assert title[1].startswith(figure.removesuffix("</b>") or word)


@pytest.mark.parametrize("kind", ["trusted", "noisy", "batches", "load", "cost", "across", "tuning", "trace"])
def test_title_and_banner_hold_the_number(kind: str) -> None:
    title = re.search(r"<title>(.*?)</title>", source(kind))
    banner = re.search(r'<p class="word">(.*?)</p>', source(kind))
    assert title is not None
    assert re.search(r"\d", title[1].partition(": ")[0])
    assert banner is not None
    assert re.search(r"\d", banner[1]) or 'class="dial"' in source(kind)


def test_an_invalid_number_is_in_no_title() -> None:
    assert "<title>invalid: " in source("invalid")


SAID = {
    *(
        "trusted",
        "noisy",
        "invalid",
        "unstable",
        "undecided",
        "faster",
        "slower",
        "same",
        "unclear",
        "different",
    ),
    *(
        "passed",
        "not passed",
        "measured",
        "failed",
        "interrupted",
        "nothing gained",
        "gate failed",
        "dry run",
    ),
    *(
        "limit broken",
        "worse",
        "changed",
        "steady",
        "too few runs",
        "memory alone",
        "CPU-bound",
        "host-bound",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_vocabulary_says_how_it_went(kind: str) -> None:
    words = re.findall(r'<b class="word [^"]*">(.*?)</b>', source(kind))
    assert not {"warn", "fail"} & set(words), "a check that warns is a warning, one that fails has failed"
    banner = re.search(r'<p class="word">(.*?)</p>', source(kind))
    assert banner is not None
    word = banner[1].partition(" <b")[0]
    assert word in SAID or re.search(r"\d", word), word


@pytest.mark.parametrize("kind", KINDS)
def test_every_drawing_has_a_name_or_is_hidden_from_screen_readers(kind: str) -> None:
    for drawing in drawings(kind):
        named = drawing.get("role") == "img" and (drawing.findtext("title") or "").strip()
        assert named or drawing.get("aria-hidden") == "true", ElementTree.tostring(drawing)[:200]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_a_drawing_neither_collide_nor_are_cut(kind: str) -> None:
    for drawing in drawings(kind):
        shown, (_, _, width, height) = words(drawing), map(float, drawing.get("viewBox", "0 0 0 0").split())
        for each in shown:
            assert each.left >= -1, each
            assert each.right <= width + 1, each
            assert 8 <= each.y <= height, each
        for one, other in combinations(shown, 2):
            overlap = min(one.right, other.right) - max(one.left, other.left)
            assert overlap <= 0 or abs(one.y - other.y) >= 10, (one, other)


def test_names_of_many_processes_do_not_collide_on_a_phone() -> None:
    series = runs.timings(0.02, n=120)
    series = structs.replace(series, process=[at // 20 for at in range(len(series.samples))])
    drawn = sample_chart.SampleChart(series, {}, most=120).draw(NARROW)
    shown = [each for each in words(ElementTree.fromstring(drawn)) if each.text.startswith("process")]
    assert shown
    assert all(one.right <= other.left for one, other in pairwise(shown))


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_sees_whole_charts_whose_text_it_can_read(kind: str) -> None:
    page = source(kind)
    for shape, width in re.findall(r'<div class="drawing (half|narrow)"><svg viewBox="0 0 (\d+)', page):
        assert float(width) == {"half": HALF, "narrow": NARROW}[shape]
        assert 11 * (400 - 32 - 28) / float(width) >= 8  # pixels of the smallest text
    broad, narrow = (page.count(f'<div class="drawing {name}">') for name in ("broad", "narrow"))
    assert broad == narrow
    assert not re.search(r"\.(chart|samples)[^{}]*\{[^}]*min-width", CSS)


def test_the_band_of_an_interval_has_the_height_that_was_drawn() -> None:
    sized = re.findall(r"([^{}]*)\{[^{}]*\b(?:width|height):", CSS)
    band = re.search(r'<rect[^>]*class="([\w ]+)"[^>]*/?></rect><line[^>]*class="median"', source("trusted"))
    assert band is not None
    assert not [rule for rule in sized if re.search(rf"\.{band[1]}\b", rule)]


def axes_of(run: Run) -> list[list[str]]:
    """Labels of the left axes of the samples of each case, as a wide screen shows them."""
    charts = re.findall(
        r'viewBox="0 0 1000 300" role="img" class="chart samples">.*?</svg>', html.render(run)
    )
    return [re.findall(r'class="tick end">([^<]*)<', chart) for chart in charts]


def test_compared_cases_have_one_axis_and_others_have_their_own() -> None:
    one, eight, other_one, other_eight = axes_of(runs.compared())  # batch 1 and 8 of two targets
    assert one == other_one != eight == other_eight
    one, _, other_one, _ = axes_of(structs.replace(runs.compared(), comparisons=[]))
    assert one != other_one


def threads(*levels: float) -> Run:
    """Cases of which each is compared with the first."""
    cases = [runs.case(runs.timings(level), axes={"threads": at}) for at, level in enumerate(levels)]
    slower = [runs.against(cases[0], each, word="slower", speedup=0.8, ci95=(0.7, 0.9)) for each in cases[1:]]
    return runs.run(*cases, comparisons=slower)


def test_candidates_of_one_baseline_share_its_axis_even_if_never_compared_with_each_other() -> None:
    first, second, third = axes_of(threads(0.020, 0.024, 0.028))
    assert first == second == third


def test_compared_cases_that_differ_by_more_than_twice_keep_their_own_details() -> None:
    first, second = axes_of(threads(0.02, 0.2))
    assert first != second


@pytest.mark.parametrize("kind", ["profile", "trace-against"])
def test_the_difference_to_another_profile_stands_before_what_limits_the_step(kind: str) -> None:
    page = source(kind)
    places = [page.index(f'id="{name}"') for name in ("verdict", "against", "why", "next", "time")]
    assert places == sorted(places)
