"""The page of a session: whole without its script, safe with hostile names, drawn to scale."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from html.parser import HTMLParser

import pytest
from msgspec import structs

from fixtures import tunings
from fixtures.tuning_parts import rung
from laptime.records.tuning import Convergence, Tuning
from laptime.reports.document import Chart
from laptime.reports.documents.tuning import ladder, script
from laptime.reports.formats import html, markdown, text
from laptime.reports.page.svg import BROAD

SAMPLES = {**tunings.samples(), "hostile": tunings.hostile}
VOID = frozenset({"meta", "br"})


class Read(HTMLParser):
    """Elements with their attributes, and whether each was closed in order."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.open, self.crossed, self.words = [], [], [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data):
        if not {"script", "style"} & {*self.open}:
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_page_is_one_sound_file(name):
    source = html.render(SAMPLES[name]())
    read = Read(source)
    assert len(source.encode()) < 500_000
    assert (read.open, read.crossed) == ([], [])
    assert not [a for _, own in read.elements for a in own if a in ("src", "style") or a.startswith("on")]
    assert all(own["href"].startswith("#") for own in read.all("a"))
    ids = [own["id"] for _, own in read.elements if "id" in own]
    assert len(ids) == len(set(ids))
    assert {own["href"][1:] for own in read.all("a")} <= set(ids)
    assert source == html.render(SAMPLES[name]())


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_the_policy_allows_the_pages_own_style_and_script_alone(name):
    source = html.render(SAMPLES[name]())
    policy = next(own["content"] for own in Read(source).all("meta") if "http-equiv" in own)
    for tag, kind in (("style", "style-src"), ("script", "script-src")):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_hostile_names_stay_text():
    source = html.render(tunings.hostile())
    read = Read(source)
    assert len(read.all("script")) == 1
    assert read.all("img") == []
    assert "\x1b" not in source
    assert "\u202e" not in source
    assert "{{ 7*7 }}" in "".join(read.words)


def test_folders_of_this_machine_are_left_out():
    run = tunings.full()
    patch = structs.replace(run.tuning.patch, path="/home/me/secret/train.laptime.patch")
    patch = structs.replace(patch, text="--- /home/me/secret/train.py\n+++ b\n+a = 1\n")
    source = html.render(structs.replace(run, tuning=structs.replace(run.tuning, patch=patch)))
    assert "secret" not in source
    assert "train.laptime.patch" in source


def test_lines_of_the_patch_are_told_apart():
    diff = "diff --git a b\n--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n same\n-old\n+new\n\\ No newline"
    run = tunings.full()

    def kinds(text):
        patch = structs.replace(run.tuning.patch, text=text, suggestions="")
        shown = html.render(structs.replace(run, tuning=structs.replace(run.tuning, patch=patch)))
        return re.findall(r'<span(?: class="(file|hunk|added|removed)")?>(.*)</span>\n', shown)

    assert [kind for kind, _ in kinds(diff)] == [*["file"] * 3, "hunk", "", "removed", "added", ""]
    assert kinds("") == []
    assert kinds("+\tx = 1") == [("added", "+   x = 1")]


def lengths(bar):
    return {part.kind: part.value for part in bar.parts}


def test_stairs_begin_where_the_last_kept_change_ended():
    rows = ladder.stairs(tunings.gpu().tuning).rows
    assert rows[0].name == "as it is"
    assert [row.text for row in rows] == ["1.00x", "1.32x", "1.05x", "1.48x", "1.32x", "2.72x"]
    for before, row in itertools.pairwise(rows[:-1]):
        assert lengths(row)["held"] == pytest.approx(before.value)
        assert lengths(row)["held"] + lengths(row)["won"] == pytest.approx(row.value)
    assert lengths(rows[0]) == {"held": 1.0}
    assert all(row.interval[0] <= row.value <= row.interval[1] for row in rows[1:])


def test_what_was_not_kept_is_drawn_apart_and_carries_nothing_on():
    rows = {row.name: row for row in ladder.stairs(tunings.full().tuning).rows}
    lost = rows["compile mode=default"]
    assert lost.kind == "left"
    assert set(lengths(lost)) == {"held", "lost"}
    # compile lost: its right end is what was reached before
    assert sum(lengths(lost).values()) == pytest.approx(lengths(rows["num_workers=1"])["held"])
    assert rows["foreach"].kind == "left"


def test_what_took_the_place_of_a_kept_change_stands_on_top_of_it():
    two = structs.replace(rung("slots", 2.5, 0.1), label="slots=8", kept=False, replaced=True)
    four = structs.replace(rung("slots", 1.2, 0.1), label="slots=16")
    rows = ladder.stairs(Tuning(ladder=[two, four])).rows
    assert [row.value for row in rows] == pytest.approx([1.0, 2.5, 3.0])
    assert lengths(rows[2]) == pytest.approx({"held": 2.5, "won": 0.5})


def test_the_stairs_are_in_times_the_speed():
    tuning = Tuning(ladder=[rung("a", 1.5, 0.1)])
    bars = ladder.stairs(tuning)
    assert [row.text for row in bars.rows] == ["1.00x", "1.50x"]
    assert "the speed" in bars.note
    assert ladder.stairs(Tuning()).rows == []


def test_before_and_after_share_one_scale():
    bars = script.bands({"data": 3.0, "forward": 1.0}, {"forward": 1.0}, "", "")
    assert [row.value for row in bars.rows] == [4.0, 1.0]
    assert [sum(part.value for part in row.parts) for row in bars.rows] == [4.0, 1.0]
    assert bars.whole is None  # the longest bar has the whole width
    assert [part.name for part in bars.legend] == ["waiting for data", "forward"]
    assert script.bands({}, {"forward": 1.0}, "", "").rows == []


def test_curves_of_the_loss_need_two_points():
    def charts(own):
        blocks = script.sameness(Tuning(convergence=own)).blocks
        return [block for block in blocks if isinstance(block, Chart)]

    assert charts(Convergence(word="holds", baseline=[[1.0]], final=[[]])) == []
    assert charts(Convergence(word="holds", baseline=[[1.0, float("nan")]], final=[])) == []
    (chart,) = charts(tunings.full().tuning.convergence)
    assert str(chart.plot().draw(BROAD)).count("<path") == 6


def test_what_is_only_suggested_has_its_own_section():
    shown = html.render(tunings.full())
    sections = ("patch", "same", "ladder", "suggested")
    at = [shown.index(f'id="{section}"') for section in sections]
    assert at == sorted(at), "what is handed back comes first, what is only suggested last"
    run = tunings.full()
    patch = structs.replace(run.tuning.patch, suggestions="")
    bare = structs.replace(run, tuning=structs.replace(run.tuning, patch=patch))
    assert 'id="suggested"' not in html.render(bare)


def test_a_page_has_one_step_before_and_one_after():
    """The diagnosis timed a step of 3.40 s, the fresh processes another one: the shares are of theirs."""
    run = tunings.full()
    tuning = run.tuning
    slower = structs.replace(tuning.baseline, step=2 * tuning.before.step)
    before = structs.replace(tuning.before, sentence="87 % of a step of 3.40 s is forward and backward")
    made = structs.replace(run, tuning=structs.replace(tuning, baseline=slower, before=before))
    for shown in (html.render(made), text.render(made), markdown.render(made)):
        assert not re.search(r"\b3\.40\b", shown)
        assert re.search(r"\b6\.81\b", shown)  # twice 3.404 s
    assert "samples/s</th>" not in html.render(made)


def test_a_command_line_obeys_no_page() -> None:
    run = tunings.server()
    assert run.tuning is not None
    assert run.tuning.server is not None
    hostile = structs.replace(
        run.tuning.server, before=tunings.HOSTILE, command=tunings.HOSTILE, load=tunings.HOSTILE
    )
    page = html.render(structs.replace(run, tuning=structs.replace(run.tuning, server=hostile)))
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    assert "\x1b" not in page
