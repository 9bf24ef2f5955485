"""The page of any document: every kind of block is shown, drawn to scale, and left out where it is empty."""

import re
from typing import Any, NamedTuple

import pytest
from markupsafe import Markup

from fixtures import profiles
from laptime.reports.document import (
    Advice,
    Bar,
    Bars,
    Cell,
    Chart,
    Code,
    Column,
    Document,
    Facts,
    Failure,
    Folded,
    Group,
    Headline,
    Notice,
    Notices,
    Panels,
    Row,
    Section,
    Table,
    Text,
    Views,
)
from laptime.reports.formats import html
from laptime.reports.page import render as page


def shown(*blocks, **changes):
    verdict = Headline(word="fine", tone="trusted", sentence="all is well")
    section = Section(id="s", title="A section", blocks=blocks)
    document = Document(
        verb="test", title="title", verdict=verdict, sections=[section], data=dict, about="About.", **changes
    )
    return page.render(document)


def grid(id="t", rows=(), **changes):
    columns = [Column(title="name", kind="code"), Column(title="self", kind="time", bar=True)]
    return Table(id=id, columns=columns, rows=rows, **changes)


class Drawn(NamedTuple):
    """The least that a chart can be."""

    told: dict[str, list[Any]] | None = None

    def draw(self, width: float) -> Markup:
        return Markup("<svg></svg>")

    def keys(self) -> Markup:
        return Markup("")

    def points(self) -> dict[str, list[Any]] | None:
        return self.told


def test_every_kind_of_block_is_on_the_page():
    source = shown(
        Text(text="a sentence"),
        Facts(rows=[("topic", "a fact"), ("", "next: laptime bench x")]),
        Notices(rows=[Notice(level="warn", text="a notice", next="do this")]),
        Failure(status="failed", name="case", what="it broke", why="because", next="laptime doctor"),
        Code(title="The patch", language="diff", text="--- a\n+added\n-removed\n same"),
        Chart(title="a chart", plot=lambda: Drawn()),
        Panels(blocks=[Text(text="in a panel")]),
        Group(title="a group", note="its note", blocks=[Text(text="in a group")]),
        Folded(title="folded", blocks=[Text(text="in a fold")]),
        grid(rows=[Row(cells=["row", 5])]),
    )
    for text in ("a sentence", "a fact", "a notice", "it broke", "a chart", "in a panel", "in a fold"):
        assert text in source
    assert "<code>laptime bench x</code>" in source
    assert '<span class="added">+added</span>' in source
    assert '<span class="file">--- a</span>' in source
    assert "<details><summary>folded</summary>" in source


def test_what_is_empty_or_for_other_media_is_left_out():
    source = shown(
        Text(text="only in text", detail="text"),
        Facts(rows=[]),
        Views(tables=[grid()]),
        Folded(title="nothing inside", blocks=[Facts(rows=[])]),
    )
    assert "in text" not in source
    assert "nothing inside" not in source
    assert "A section" not in source


def test_bars_of_a_block_have_one_scale():
    source = shown(Bars(rows=[Bar(name="a", value=4.0, text="4 s"), Bar(name="b", value=1.0, text="1 s")]))
    assert [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', source)] == [1000, 250]


def test_parts_of_a_bar_stand_end_to_end_with_a_whisker_for_the_interval():
    parts = [Bar(name="held", value=3.0, text="3", kind="held"), Bar(name="won", value=1.0, kind="won")]
    source = shown(Bars(rows=[Bar(name="x", value=4.0, text="4", parts=parts, interval=(3.5, 5.0))]))
    rects = re.findall(r'<rect x="([\d.]+)"(?: y="0")? width="([\d.]+)"[^>]*class="fill p-(\w+)"', source)
    assert rects == [("0", "600", "held"), ("600", "200", "won")]
    assert source.count('class="whisker"') == 3


def test_stacked_bars_are_one_band_with_a_legend():
    rows = [
        Bar(name="data", value=1.0, text="1 s", share=0.25, kind="data"),
        Bar(name="cpu", value=3.0, text="3 s"),
    ]
    source = shown(Bars(rows=rows, stacked=True, title="step", note="4 s"))
    assert source.count('class="band"') == 1
    assert re.search(r'<i class="swatch p-data"></i>data <b>1 s</b> 25 %', source)


def test_columns_without_any_value_are_left_out():
    columns = [Column(title="name"), Column(title="a", kind="count"), Column(title="empty")]
    source = shown(Table(id="t", columns=columns, rows=[Row(cells=["n", 3, ""])]))
    assert re.findall(r"<th [^>]*>(\w+)", source) == ["name", "a"]


def test_linked_rows_stay_and_links_name_the_first_of_equal_keys():
    rows = [Row(cells=[f"r{n}", n], key=f"k{n % 7}") for n in range(10)]
    advice = Advice(severity="advice", sentence="see", links=[("t/k5", "row five"), ("t/k0", "row zero")])
    source = shown(advice, grid(rows=rows, most=2))
    assert re.findall(r'<tr id="(t-\d)"[^>]*><td class="l c">(r\d)', source) == [
        ("t-0", "r0"),
        ("t-1", "r1"),
        ("t-2", "r5"),
        ("t-3", "r7"),
    ]
    assert re.findall(r'href="#(t-\d)">([\w ]+)<', source) == [("t-2", "row five"), ("t-0", "row zero")]
    assert "6 more rows" in source


def test_a_link_to_nothing_goes_to_the_first_row_of_its_table_or_away():
    advice = Advice(severity="advice", sentence="see", links=[("t/gone", "row"), ("other/x", "row")])
    assert 'href="#t-0">t<' in shown(advice, grid(rows=[Row(cells=["a", 1], key="a")]))
    assert 'class="row"' not in shown(advice)


def test_ready_cells_keep_interval_note_and_the_value_to_sort_by():
    cell = Cell(text="26.3 ms", value=0.0263, interval="[26, 27] ms", note="why", tone="faster")
    source = shown(
        Table(id="t", columns=[Column(title="n"), Column(title="x")], rows=[Row(cells=["a", cell])])
    )
    assert re.search(r'<td class="[^"]*word faster" data-value="0.0263" title="why">26.3 ms', source)
    assert "<small>[26, 27] ms</small>" in source


def test_a_row_opens_to_its_whole_name_and_shows_its_notes():
    source = shown(grid(rows=[Row(cells=["short", 1], full="the whole name", notes=["a note"])]))
    assert "<details><summary>short</summary><p>the whole name</p></details>" in source
    assert '<small class="why">a note</small>' in source


def test_what_leads_stands_before_everything_else():
    verdict = Headline(word="fine", tone="neutral", sentence="x", share=0.28)
    sections = [
        Section(id="late", title="Late", blocks=[Text(text="late")]),
        Section(id="first", title="First", blocks=[Text(text="first")], lead=True),
    ]
    source = page.render(
        Document(verb="t", title="t", verdict=verdict, sections=sections, data=dict, warnings=["careful"])
    )
    places = [source.index(mark) for mark in ("28 %", "careful", 'id="first"', 'id="late"')]
    assert places == sorted(places)


@pytest.mark.parametrize("embedded", [True, False])
def test_the_document_for_machines_is_embedded_when_asked(embedded):
    source = shown(Text(text="x"), embedded=embedded)
    assert ('id="report"' in source) == embedded


def test_points_of_charts_are_data_for_the_tooltips():
    chart = Chart(title="samples", plot=lambda: Drawn({"x": [1], "kinds": ["a"]}))
    source = shown(Chart(title="none", plot=lambda: Drawn()), chart)
    assert 'class="timeline" data-series="0"' in source
    assert '{"series":[{"x":[1],"kinds":["a"]}]}' in source


def test_a_bar_without_a_name_is_a_thin_second_row():
    second = Bar(name="", value=1.0, text="1 s", parts=[Bar(name="on the device", value=1.0, kind="x")])
    source = shown(Bars(rows=[Bar(name="forward", value=2.0, text="2 s"), second]))
    assert source.count('<tr class="second">') == 1


def test_what_scrolls_can_be_reached_by_keys_and_every_drawing_has_a_name() -> None:
    page = html.render(profiles.example())
    assert '<div class="wide">' not in page
    assert '<div class="wide" tabindex="0">' in page
    assert "<title></title>" not in page
