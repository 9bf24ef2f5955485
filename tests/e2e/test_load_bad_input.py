"""`laptime load` against language models' servers that fail in every scripted way."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures.llm_server import Answer, Cost, Script, serving
from fixtures.scripted_servers import served
from laptime.reports.documents import document
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load as measure

Laptime = Callable[..., subprocess.CompletedProcess[str]]
FAST = Cost(0.004, 0.0, 0.0)
GOOD = Answer()
PROBES = 2
"""Requests that laptime sends before a level, to see what a word of a prompt is in tokens."""


def load(here: Laptime, url: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    shape = ("--rate", "20", "--prompt", "8", "--output-tokens", "8", "--timeout", "2s", "--json")
    return here(folder, "load", url, *shape, *words)


def level(script: Script, path: str = "", **options: Any) -> dict[str, Any]:
    """The only level of a run, as its JSON document has it."""
    if any(answer.end == "die" for answer in script.answers):
        with serving(script) as server:
            return loaded(server.url + path, **options)
    with served(script) as url:
        return loaded(url + path, **options)


def loaded(url: str, **options: Any) -> dict[str, Any]:
    run = measure(LoadRequest(target=url, rates=[20], prompt=8, output=8, timeout=2.0, **options))
    (found,) = document(run).data()["levels"]
    return dict(found)


def test_each_failure_is_counted_by_its_kind() -> None:
    faults = (
        Answer(status=401, body="{}"),
        Answer(status=429, body="{}", headers={"retry-after": "1"}),
        Answer(status=503, body="busy"),
        Answer(body="<html>a proxy"),
        Answer(end="cut", after=3),
        Answer(end="error", after=3),
        Answer(end="garbage", after=3),
        Answer(output=0),
        Answer(end="stall", after=3),
    )
    script = Script(cost=FAST, answers=(GOOD,) * (PROBES + 1) + faults + (GOOD,) * 4)
    facts = level(script, requests=11)["facts"]
    assert (facts["answered"], facts["failed"]) == (2, 9)
    assert {each["kind"]: each["count"] for each in facts["errors"]} == {
        "http 401": 1,
        "http 429": 1,
        "http 503": 1,
        "no stream": 2,
        "cut": 1,
        "error in the stream": 1,
        "no tokens": 1,
        "timeout": 1,
    }


def test_what_was_measured_is_kept_where_the_server_dies() -> None:
    answers = (GOOD,) * (PROBES + 3) + (Answer(end="die", after=2),)
    found = level(Script(cost=FAST, answers=answers), requests=12)
    assert found["facts"]["failed"] >= 8
    assert found["facts"]["answered"] + found["facts"]["failed"] == 12
    assert {each["kind"] for each in found["facts"]["errors"]} <= {"closed", "cut", "refused"}


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        (Answer(usage=False), "fail", "no usage for 4 of 8 answers"),
        (Answer(usage_error=5), "fail", "at most 8 were requested"),
        (Answer(usage_error=-5), "fail", "chunks held text"),
        (Answer(output=3), "warn", "50 % of the answers are shorter"),
    ],
)
def test_tokens_are_what_usage_says_and_it_is_not_believed_blindly(
    answer: Answer, outcome: str, said: str
) -> None:
    script = Script(cost=FAST, answers=(GOOD,) * (PROBES + 4) + (answer,) * 4)
    reasons = level(script, requests=8)["reasons"]
    (tokens,) = [each for each in reasons if each["check"] == "tokens"]
    assert tokens["outcome"] == outcome
    assert said in tokens["sentence"]


def test_tokens_of_every_channel_and_shape_are_counted_once() -> None:
    shapes = (
        Answer(reasoning=4),
        Answer(reasoning=8, reasoning_field="reasoning_content"),
        Answer(channel="tool_calls"),
        Answer(blank_every=2),
        Answer(role_chunk=False),
    )
    script = Script(cost=FAST, answers=(GOOD,) * PROBES + shapes)
    found = level(script, "/chat/completions", requests=5)
    assert (found["facts"]["answered"], found["facts"]["chunks"]) == (5, 40)
    assert found["tokens"]["exact"] is True
    several = Script(cost=FAST, answers=(Answer(tokens_per_chunk=4),))
    tokens = level(several, requests=5)["tokens"]
    assert (tokens["exact"], tokens["output"]) == (False, 8.0)


def test_a_role_that_comes_early_is_no_first_token() -> None:
    slow = Script(cost=Cost(base=0.05, prefill_token=0.0, running=0.0))
    found = level(slow, "/chat/completions", requests=2, concurrency=[1])
    assert found["tokens"]["ttft"]["median"]["value"] >= 0.05


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--model", "scriptd"), "scripted"), (("--prompt", "5000"), "maximum context length")],
)
def test_what_the_server_refuses_at_once_is_an_error_in_three_lines(
    here: Laptime, words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    with served(Script(cost=FAST)) as url:
        done = load(here, url, tmp_path, "--requests", "2", *words)
    assert done.returncode in (2, 3), done.stdout
    assert said in done.stderr + done.stdout


def test_a_key_is_sent_and_never_stored(here: Laptime, tmp_path: Path) -> None:
    with served(Script(cost=FAST, api_key="open-sesame")) as url:
        refused = load(here, url, tmp_path, "--requests", "2")
        done = load(here, url, tmp_path, "--requests", "2", "-H", "Authorization: Bearer open-sesame")
    assert refused.returncode != 0
    assert "401" in refused.stderr + refused.stdout
    assert json.loads(done.stdout)["levels"][0]["facts"]["answered"] == 2
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and b"open-sesame" in p.read_bytes()]
    assert "open-sesame" not in done.stdout + done.stderr
