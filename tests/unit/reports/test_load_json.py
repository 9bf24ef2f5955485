"""The JSON document of a load test, against its published schema; the page of one."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from msgspec import structs

from fixtures import runs
from fixtures.virtual_load import constant, exponential, level
from laptime.records.run import Run, Subject
from laptime.reports import document as doc
from laptime.reports.documents import document
from laptime.reports.formats import html, text

SCHEMA = Path(__file__).parents[3] / "schemas" / "load.schema.json"


def run() -> Run:
    cases = [level(rate, 30, exponential(0.02, 1), 1) for rate in (10, 20, 30)]
    cases.append(level(60, 30, constant(0.02), 1))
    subjects = [Subject(target="null:<b>exp=20ms")]
    return structs.replace(runs.run(*cases), verb="load", subjects=subjects)


def test_the_document_has_every_level_and_no_latency_of_one_that_grows() -> None:
    made = document(run()).data()
    assert made["schema"] == "laptime.load/1"
    assert set(json.loads(SCHEMA.read_text())["$defs"]["Report"]["properties"]) == set(made)
    assert [each["unstable"] for each in made["levels"]] == [False, False, False, True]
    assert made["levels"][3]["latency"]["median"]["value"] is None
    assert made["levels"][0]["latency"]["median"]["value"] > 0


def test_terminal_and_page_say_what_is_above_capacity_and_escape() -> None:
    said = text.render(run(), width=120)
    assert "unstable" in said
    assert "capacity from 60/s" in said
    page = html.render(run())
    assert "Latency against" in page
    assert "<b>exp" not in page


def test_every_next_is_a_whole_line_that_runs() -> None:
    typed = ["laptime", "load", "null:exp=20ms", "--rate", "10,20,30,60", "--duration", "10s"]
    made = document(structs.replace(run(), command=typed))
    notices = [
        block for section in made.sections for block in section.blocks if isinstance(block, doc.Notices)
    ]
    lines = [*made.verdict.next, *(row.next for block in notices for row in block.rows if row.next)]
    commands = [shlex.split(line) for line in lines if line.startswith("laptime")]
    assert {words[2] for words in commands} == {"--duration", "--rate"}
    for words in commands:
        assert words[:2] == ["laptime", "load"]
        assert words.count("--duration") == 1
        if words[2] == "--duration":
            assert len(words[3].strip("0s")) <= 2, "nobody knows to the second how long is enough"


def test_why_percentiles_are_missing_is_said_once() -> None:
    cases = [level(rate, 5, exponential(0.02, 1), 1) for rate in (10, 20)]
    said = text.render(structs.replace(runs.run(*cases), verb="load"), width=120)
    assert said.count("p99 needs") == 1
    assert "likewise 20/s poisson" in said
