"""The page of a profile: complete, offline, safe with hostile names, its findings linked to rows."""

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from typing import get_args

import msgspec
import pytest

from fixtures import profiles
from laptime.records.check import Finding
from laptime.records.overview import Breakdown, OperatorClass, Overview
from laptime.records.profile import Bottleneck, Profile, TraceFile
from laptime.records.run import Run
from laptime.records.tables import KernelRow, Lane, Link, OperatorRow, Timeline
from laptime.reports.formats import html

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{ 7*7 }}\u2028\u202e\x1b[31m"
MADE = {"example": profiles.example, "cpu_only": profiles.cpu_only}


class Page(HTMLParser):
    """Elements with their attributes, text by element, and what was left open."""

    VOID = frozenset({"meta", "br", "input"})

    def __init__(self, source):
        super().__init__()
        self.elements, self.text, self.open, self.crossed = [], {}, [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data):
        self.text.setdefault(self.open[-1] if self.open else "", []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self):
        return [a["id"] for _, a in self.elements if "id" in a]

    @property
    def words(self):
        return " ".join(t for tag, own in self.text.items() if tag not in ("script", "style") for t in own)


def _bare(**changes):
    """The least that a profile can be."""
    least = Profile(
        files=[TraceFile(name="trace.json", bytes=2, events=0, format="D")],
        overview=Overview(steps=0, step_ns=0, step_median_ns=0, breakdown=Breakdown()),
    )
    return msgspec.structs.replace(
        profiles.cpu_only(), findings=[], profile=msgspec.structs.replace(least, **changes)
    )


def _hostile(value):
    """Every text of plain data, names of fields aside, made hostile; the choices of a Literal stay."""
    kept = {"problem", "advice", "info", "input", "host", "device", "data", "synchronisation", "copy"}
    kept |= {
        "communication",
        "other",
        "added",
        "gone",
        "slower",
        "faster",
        "same",
        "all",
        "some",
        "",
        "memory",
        "compute",
    }
    kept |= {*get_args(OperatorClass), *get_args(Link)}
    if isinstance(value, str):
        return value if value in kept else HOSTILE + value
    if isinstance(value, list):
        return [_hostile(item) for item in value]
    if isinstance(value, dict):
        fixed = ("schema", "status", "started", "id")
        return {
            key: item if key in fixed and isinstance(item, str) else _hostile(item)
            for key, item in value.items()
        }
    return value


def _hostile_run():
    return msgspec.convert(_hostile(msgspec.to_builtins(profiles.example())), Run)


def _drawn(source):
    packed = re.search(r'id="timeline-data">([^<]*)</script>', source)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


@pytest.mark.parametrize("name", sorted(MADE))
def test_verdict_why_and_next_come_first_and_in_this_order(name):
    body = html.render(MADE[name]()).partition("<main>")[2]
    marks = ('<section class="verdict', 'aria-label="Why"', 'id="next"', 'class="cards"', 'id="time"')
    places = [body.index(mark) for mark in marks]
    assert places == sorted(places)


@pytest.mark.parametrize("name", sorted(MADE))
def test_nothing_is_fetched_and_every_link_has_its_place(name):
    source = html.render(MADE[name]())
    page = Page(source)
    assert not page.all("link")
    assert not page.all("img")
    assert all("src" not in attributes for _, attributes in page.elements)
    assert not re.search(r"@import|url\(|https?://", source)
    assert len(page.ids) == len(set(page.ids))
    assert {a["href"].removeprefix("#") for a in page.all("a")} <= set(page.ids)
    assert page.open == page.crossed == []


def test_policy_allows_only_this_style_and_this_script():
    source = html.render(profiles.example())
    page = Page(source)
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        text = re.search(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert all("style" not in a and not any(n.startswith("on") for n in a) for _, a in page.elements)


def test_hostile_names_stay_text_wherever_they_stand():
    source = html.render(_hostile_run())
    page = Page(source)
    assert len(page.all("script")) == 2
    assert not page.all("img")
    assert page.open == page.crossed == []
    assert "alert(1)" in page.words
    assert "{{ 7*7 }}" in page.words
    assert not set("\u2028\u202e\x1b") & set(source)
    drawn = _drawn(source)
    assert any("alert(1)" in name for name in drawn["names"])
    assert not set("\u2028\u202e\x1b") & set("".join(drawn["names"]))


def test_an_operator_named_like_a_script_is_a_row_like_any_other():
    name = "</script><script>alert(1)</script>"
    row = OperatorRow(id=name, name=name, calls=1, host_total_ns=5, host_self_ns=5)
    source = html.render(_bare(operators=[row]))
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in source
    assert name not in source


def test_folders_and_the_host_are_left_out():
    row = OperatorRow(id="x", name="/home/someone/op.py: f", calls=1, host_total_ns=5, host_self_ns=5)
    lane = Lane(kind="host", name="main", start_ns=[0], dur_ns=[5], name_index=[0], depth=[0], category=[0])
    timeline = Timeline(
        step=1, dur_ns=5, names=["/home/someone/run.py"], categories=["operator"], lanes=[lane]
    )
    finding = Finding(
        kind="a", sentence="see /home/someone/a.py", stack=["/home/someone/b.py(3): f", "c.py(1): g"]
    )
    run = msgspec.structs.replace(_bare(operators=[row], timeline=timeline), findings=[finding])
    source = html.render(run)
    assert "someone" not in source
    assert "op.py" in source
    assert _drawn(source)["names"] == ["…/run.py"]
    assert run.environment.host not in source


def test_findings_link_to_the_rows_they_rest_on():
    run = profiles.example()
    page = Page(html.render(run))
    rows = {a["href"].removeprefix("#") for a in page.all("a") if a.get("class") == "row"}
    assert {"ranks-3", "copies-0", "memory-of-0", "synchronisations-0"} <= rows
    assert sum(len(finding.rows) for finding in run.findings) == len(
        [a for a in page.all("a") if a.get("class") == "row"]
    )


def test_a_row_that_a_finding_speaks_of_is_in_the_page_however_far_down_it_stands():
    rows = [
        OperatorRow(id=f"op{n}", name=f"op{n}", calls=1, host_total_ns=900 - n, host_self_ns=900 - n)
        for n in range(900)
    ]
    run = _bare(operators=rows)
    source = html.render(
        msgspec.structs.replace(run, findings=[Finding(kind="a", sentence="b", rows=["operators/op890"])])
    )
    assert re.search(r'<tr id="operators-400"><td class="l c">op890<', source)
    assert ">op401<" not in source
    assert "499 more rows" in source


def test_a_finding_about_a_row_that_is_not_there_has_no_broken_link():
    run = msgspec.structs.replace(_bare(), findings=[Finding(kind="a", sentence="b", rows=["kernels/gone"])])
    assert not [a for a in Page(html.render(run)).all("a") if a.get("class") == "row"]


def test_numbers_are_there_without_the_script():
    page = Page(html.render(profiles.example()))
    for text in (
        "input-bound",
        "51.9 ms",
        "laptime tune train.py --only loader_workers",
        "train.py:88 in train",
    ):
        assert text in page.words
    for text in ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "BasicBlock_3", "aten::small_59", "truncated"):
        assert text in page.words
    assert "draws it" in page.words


def test_a_profile_that_knows_nothing_is_a_page_too():
    page = Page(html.render(_bare()))
    assert "undecided" in page.words
    assert page.open == page.crossed == []
    verdict = Bottleneck(bound="device", sentence="Device-bound: kernels take 91 % of the step", share=0.91)
    assert "91 % of the" in Page(html.render(_bare(verdict=verdict))).words


@pytest.mark.parametrize("name", sorted(MADE))
def test_the_same_run_gives_the_same_page_under_half_a_megabyte(name):
    run = MADE[name]()
    source = html.render(run)
    assert source == html.render(run)
    assert len(source.encode()) < 500_000


def test_timeline_comes_back_as_it_was():
    own = profiles.example().profile.timeline
    drawn = _drawn(html.render(profiles.example()))
    assert drawn["dur"] == own.dur_ns
    assert drawn["arrows"] == [list(arrow) for arrow in own.arrows]
    for lane, before in zip(drawn["lanes"], own.lanes, strict=True):
        starts = [sum(lane["start_ns"][: n + 1]) for n in range(0, len(lane["start_ns"]), 97)]
        assert starts == before.start_ns[::97]
        assert lane["dur_ns"] == before.dur_ns
        assert [drawn["names"][n] for n in lane["name_index"]][:5] == [
            own.names[n] for n in before.name_index
        ][:5]


def test_long_kernel_names_are_short_with_the_whole_name_in_the_row():
    name = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int, float*)"
    )
    row = KernelRow(id=name, name=name, calls=1, total_ns=5, mean_ns=5, min_ns=5, max_ns=5)
    source = html.render(_bare(kernels=[row]))
    assert "<summary>vectorized_elementwise_kernel&lt;4, CUDAFunctor_add&lt;float&gt;&gt;</summary>" in source
    assert "<p>void at::native::vectorized" in source


def test_every_part_of_the_breakdown_is_drawn_in_each_step():
    run = profiles.example()
    source = html.render(run)
    for step in run.profile.steps:
        for part in ("Kernel", "DataLoader", "Communication"):
            assert f"<title>step {step.number}: {part}: " in source
