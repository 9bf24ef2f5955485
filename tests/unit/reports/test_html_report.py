"""The page: complete, offline, safe with hostile names, readable without its script."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from fixtures import pages, runs
from laptime.records.case import Failure
from laptime.reports.documents import document
from laptime.reports.documents.bench.sample_chart import KINDS, kinds_of, thin
from laptime.reports.formats import html


class Page(HTMLParser):
    """Elements with their attributes, and the text inside each kind of element."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.text, self._open = [], {}, []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        self.text.setdefault(self._open[-1] if self._open else "", []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def words(self):
        return " ".join(
            t for tag, texts in self.text.items() if tag not in ("script", "style") for t in texts
        )


@pytest.mark.parametrize("name", sorted(runs.scenarios()))
def test_verdict_is_the_first_thing_after_the_title(name):
    run = runs.scenarios()[name]()
    body = html.render(run).partition("<main>")[2]
    tone = document(run).verdict.tone
    assert re.match(r'\s*<h1>[^<]*</h1>\s*<section class="verdict ' + tone, body)


@pytest.mark.parametrize("name", sorted(runs.scenarios()))
def test_nothing_is_fetched_from_anywhere(name):
    source = html.render(runs.scenarios()[name]())
    page = Page(source)
    assert not page.all("link")
    assert not page.all("img")
    assert all("src" not in attributes for _, attributes in page.elements)
    assert all(a["href"].startswith("#") for a in page.all("a"))
    assert not re.search(r"@import|url\(", source)


def test_policy_allows_only_this_style_and_this_script():
    source = html.render(runs.trusted())
    page = Page(source)
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    # An attribute would need 'unsafe-inline'.
    assert all("style" not in a and not any(n.startswith("on") for n in a) for _, a in page.elements)


def test_hostile_names_stay_text():
    page = Page(html.render(pages.hostile()))
    assert len(page.all("script")) == 3
    assert not page.all("img")
    assert "alert(1)" in page.words
    assert "{{ 7*7 }}" in page.words
    assert not any("alert" in text for text in page.text["script"] if not text.startswith("{"))


def test_data_blocks_are_json_and_hold_the_report():
    source = html.render(pages.hostile())
    blocks = dict(re.findall(r'<script type="application/json" id="(\w+)">(.*?)</script>', source, re.DOTALL))
    assert not set("<>&") & set("".join(blocks.values()))
    assert json.loads(blocks["report"])["schema"] == "laptime.report/1"
    points = json.loads(blocks["points"])
    assert len(points["series"][0]["x"]) == len(runs.timings(0.02).samples)


def test_host_and_folders_are_left_out():
    failure = Failure(
        kind="user_code", what="raised", why="File /home/someone/secret/net.py: no", traceback=""
    )
    case = runs.case(
        runs.timings(0.02),
        target="/home/someone/net.py:build",
        details={"model": {"source": "/home/someone/net.py"}, "count": {"file": "/home/someone/x.py"}},
    )
    source = html.render(runs.run(case, runs.failing(failure)))
    assert "someone" not in source
    assert "net.py" in source
    assert runs.environment().host not in source


def test_numbers_are_there_without_the_script():
    page = Page(html.render(runs.compared()))
    for text in ("26.33 ms", "[26.30, 26.36] ms", "138.9 ms", "faster", "unclear", "GFLOPs"):
        assert text in page.words


def test_a_number_in_the_first_column_has_its_interval_too():
    row = re.search(r'<tr id="case-0".*?</td>', html.render(runs.noisy()))[0]
    assert "26.2 ms<small>[25.7, 26.8] ms</small>" in row


def test_marks_and_counts_of_every_kind_of_sample():
    source = html.render(runs.noisy())
    series = runs.noisy().cases[0].series[0]
    kinds = kinds_of(series)
    for index, kind in enumerate(KINDS):
        number = int((kinds == index).sum())
        shown = f"<span>{kind.words}</span> <b>{number}</b>" in source
        assert shown == (number > 0)


def test_page_of_a_long_run_stays_small_and_says_what_it_left_out():
    cases = [
        runs.case(
            runs.timings(0.001, n=12_000, seed=batch, disturbed=0.05),
            *runs.facts(batch=batch),
            axes={"batch": batch},
        )
        for batch in (1, 2, 4, 8)
    ]
    source = html.render(runs.run(*cases))
    assert len(source) < 500_000
    assert "12,000 samples" in source


def test_thinning_keeps_the_extremes_of_every_kind():
    values = np.random.default_rng(1).lognormal(size=10_000)
    kinds = (np.arange(10_000) % 50 == 0).astype(np.intp)
    kept = thin(values, kinds, 500)
    assert len(kept) <= 600
    for kind in (0, 1):
        own = values[kinds == kind]
        drawn = values[kept][kinds[kept] == kind]
        assert drawn.max() == own.max()
        assert drawn.min() == own.min()


def test_elements_are_closed_in_order():
    source = html.render(pages.hostile())
    void = {"meta", "br"}
    stack = []

    class Nesting(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag not in void:
                stack.append(tag)

        def handle_endtag(self, tag):
            assert stack.pop() == tag

    Nesting().feed(source)
    assert stack == []
