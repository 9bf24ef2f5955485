"""Every scenario in every report, against files that were read by a person."""

import json
import re
from typing import Any

import pytest

from fixtures import profiles, tunings
from fixtures.runs import scenarios
from laptime.reports import fragment
from laptime.reports.documents import document
from laptime.reports.formats import html, markdown, text
from laptime.reports.formats import json as json_report

SCENARIOS = sorted(scenarios())
TUNINGS = sorted(tunings.samples())
PROFILES = {"profile": profiles.example, "profile-cpu": profiles.cpu_only}


@pytest.mark.parametrize("name", SCENARIOS)
def test_text_is_as_reviewed(name, golden):
    golden(f"{name}.txt", text.render(scenarios()[name]()))


@pytest.mark.parametrize("name", ["compared", "interrupted"])
def test_text_is_as_reviewed_on_a_narrow_terminal(name, golden):
    golden(f"{name}-80.txt", text.render(scenarios()[name](), width=80))


@pytest.mark.parametrize("name", SCENARIOS)
def test_markdown_is_as_reviewed(name, golden):
    golden(f"{name}.md", markdown.render(scenarios()[name]()))


@pytest.mark.parametrize("name", SCENARIOS)
def test_json_is_as_reviewed(name, golden):
    document = _rounded(json.loads(json_report.render(scenarios()[name]())))
    golden(f"{name}.json", json.dumps(document, indent=1) + "\n")


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_text_of_a_profile_is_as_reviewed(name, golden):
    golden(f"{name}.txt", text.render(PROFILES[name]()))
    golden(f"{name}-72.txt", text.render(PROFILES[name](), width=72))


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_markdown_of_a_profile_is_as_reviewed(name, golden):
    golden(f"{name}.md", markdown.render(PROFILES[name]()))


def test_json_of_a_profile_is_as_reviewed(golden):
    document = _rounded(json.loads(json_report.render(profiles.cpu_only())))
    golden("profile-cpu.json", json.dumps(document, indent=1) + "\n")


@pytest.mark.parametrize("name", TUNINGS)
def test_text_of_a_session_is_as_reviewed(name, golden):
    golden(f"{name}.txt", text.render(tunings.samples()[name]()))


def test_text_of_a_session_is_as_reviewed_on_a_narrow_terminal(golden):
    golden("tuning-60.txt", text.render(tunings.full(), width=60))


@pytest.mark.parametrize("name", TUNINGS)
def test_markdown_of_a_session_is_as_reviewed(name, golden):
    golden(f"{name}.md", markdown.render(tunings.samples()[name]()))


@pytest.mark.parametrize("name", ["tuning", "tuning-gate"])
def test_json_of_a_session_is_as_reviewed(name, golden):
    document = _rounded(json.loads(json_report.render(tunings.samples()[name]())))
    golden(f"{name}.json", json.dumps(document, indent=1) + "\n")


def test_body_of_a_page_of_a_session_is_as_reviewed(golden):
    """Style and script have files of their own."""
    page = html.render(tunings.gpu())
    golden("tuning-gpu.html", page[page.index("<body") : page.rindex("<script>")] + "\n")


def _rounded(value: Any) -> Any:
    """Ten digits: the last bits of a float depend on the machine's vector instructions."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value


def notebook(run: Any) -> str:
    """What a notebook shows, as text."""
    return re.sub("<[^>]+>", " ", fragment.render(document(run)))


TWICE = re.compile(r"\d(/s| ?[a-zA-Z]+) \[[^\]\n]*[\])] ?\1\b")
"""A unit before an interval, and again behind it."""


@pytest.mark.parametrize("name", [*SCENARIOS, *PROFILES, *TUNINGS])
def test_a_unit_is_not_printed_twice(name):
    run = {**scenarios(), **PROFILES, **tunings.samples()}[name]()
    for report in (text.render(run), markdown.render(run), json_report.render(run), notebook(run)):
        assert TWICE.search(report) is None
    assert TWICE.search("499.6/s [499.3, 499.9]/s")
    assert TWICE.search("171 ms [168, 175] ms")
