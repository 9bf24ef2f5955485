"""What cannot be loaded, or is no load: three lines that say so, before anything is measured."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("h11")
pytest.importorskip("aiohttp")

from fixtures import llm_server
from fixtures.scripted_servers import served
from laptime.kit import typed
from laptime.kit.errors import LaptimeError, UsageError
from laptime.loadgen import driver
from laptime.loadgen.connection import Reply
from laptime.loadgen.endpoint import fault
from laptime.loadgen.loopback import self_test
from laptime.loadgen.messages import Endpoint, SelfTest
from laptime.testing import http_server
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load


@pytest.mark.parametrize("rate", [0, -3, float("nan"), float("inf"), 1e9])
def test_rates_that_nobody_can_send(rate: float) -> None:
    with pytest.raises(UsageError, match=r"impossible|one machine") as refused:
        load(LoadRequest(target="null:noop", rates=[rate]))
    assert "--rate" in refused.value.next


@pytest.mark.parametrize(
    ("target", "options", "next_step"),
    [
        ("127.0.0.1:8000/predict", {}, "http://127.0.0.1:8000/predict"),
        ("localhost:80", {}, "http://localhost:80"),
        ("[::1]:8000/v1", {}, "http://[::1]:8000/v1"),
        ("models.example.com:443", {}, "http://models.example.com:443"),
        ("http://127.0.0.1:1", {"method": "GE T"}, "--method POST"),
        ("http://127.0.0.1:1", {"method": "POST\r\nx: y"}, "--method POST"),
    ],
)
def test_an_address_without_a_protocol_and_a_method_that_is_none_are_refused(
    target: str, options: dict[str, Any], next_step: str
) -> None:
    with pytest.raises(UsageError) as refused:
        LoadRequest(target=target, rates=[5], **options).check()
    assert refused.value.next == next_step


def test_a_file_of_bodies_has_one_at_least_and_ends_lines_at_their_ends_alone(tmp_path: Path) -> None:
    empty, two = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    empty.write_text("\n \n")
    with pytest.raises(UsageError, match="cannot be sent"):
        typed.bodies(str(empty))
    two.write_bytes('{"a": "x\u2028y\x0bz"}\r\n\r\n{"b": 1}'.encode())
    assert typed.bodies(str(two)) == ['{"a": "x\u2028y\x0bz"}', '{"b": 1}']


@pytest.mark.parametrize("target", ["model.py:build", "torchvision:resnet18", "null:exp=20ms", "a.b:build3"])
def test_a_model_is_no_address_without_a_protocol(target: str) -> None:
    LoadRequest(target=target, rates=[5]).check()


@pytest.mark.parametrize(
    ("answer", "what", "advice"),
    [
        (http_server.Answer(status=401, body="who are you"), "http 401", "--header"),
        (http_server.Answer(status=429, body="slow down"), "http 429", "ask later"),
        (http_server.Answer(status=500, body="oops"), "http 500", "curl -i"),
        (http_server.Answer(end="cut", chunks=2), "cut", "curl -i"),
    ],
)
def test_an_endpoint_that_does_not_answer_well_at_first(
    answer: http_server.Answer, what: str, advice: str
) -> None:
    script = http_server.Script(slots=0, answers=(answer,))
    with served(script) as url, pytest.raises(UsageError, match=what) as refused:
        load(LoadRequest(target=url, rates=[1]))
    assert answer.body[:5] in refused.value.why or what == "cut"
    assert advice in refused.value.next


@pytest.mark.parametrize("path", ["predict", "v1"])
def test_a_server_that_speaks_no_tls(path: str) -> None:
    with served(http_server.Script(slots=0)) as url, pytest.raises(LaptimeError, match="tls") as refused:
        load(LoadRequest(target=url.replace("http:", "https:").replace("predict", path), rates=[1]))
    assert refused.value.next.startswith("http://127.0.0.1")


@pytest.mark.parametrize(
    ("script", "options", "why", "advice"),
    [
        (llm_server.Script(answers=(llm_server.Answer(body="<html>"),)), {}, "text/html", "curl"),
        (llm_server.Script(answers=(llm_server.Answer(status=429, body="{}"),)), {}, "http 429", "ask later"),
        (llm_server.Script(answers=(llm_server.Answer(output=0),)), {}, "no token", "curl"),
        (
            llm_server.Script(context=100),
            {"prompt": 200},
            "maximum context length is 100",
            "smaller --prompt",
        ),
        (llm_server.Script(), {"model": "scriptd"}, "known: scripted", "--model scripted"),
        (llm_server.Script(api_key="k"), {}, "Unauthorized", "--header"),
    ],
)
def test_a_language_model_that_does_not_stream_at_first(
    script: llm_server.Script, options: dict[str, object], why: str, advice: str
) -> None:
    with served(script) as url, pytest.raises(LaptimeError) as refused:
        load(LoadRequest(target=url, rates=[1], **options))  # type: ignore[arg-type]
    assert why in refused.value.why
    assert '{"' not in refused.value.why  # the message, not its envelope
    assert advice in refused.value.next


LIMIT = '{"error": {"message": "max_tokens is not known"}}'


def test_the_path_that_is_there_says_why_it_refused() -> None:
    """The chat refused a field, and the error was that there is no other path."""
    answers = (
        *(llm_server.Answer(status=400, body=LIMIT) for _ in range(2)),
        llm_server.Answer(status=404, body='{"detail": "Not Found"}'),
    )
    with served(llm_server.Script(answers=answers)) as url, pytest.raises(UsageError) as refused:
        load(LoadRequest(target=url, rates=[1]))
    assert "/chat/completions did not stream" in refused.value.what
    assert refused.value.why == "http 400: max_tokens is not known"


@pytest.mark.parametrize("status", [400, 422])
def test_a_chat_that_does_not_know_ignore_eos_is_asked_without_it(status: int) -> None:
    bad = llm_server.Answer(status=status, body='{"detail": "ignore_eos"}')
    script = llm_server.Script(answers=(bad, *(llm_server.Answer() for _ in range(5))))
    with served(script) as url:
        run = load(LoadRequest(target=url, rates=[20], requests=2, prompt=4, output=2, save=False))
    assert run.plan["path"].value == "/v1/chat/completions"


@pytest.mark.parametrize(
    "body",
    ['{"error": {"message": "no"}}', '{"error": "no"}', '{"detail": "no"}', '{"message": "no"}', "no"],
)
def test_an_error_is_told_without_its_envelope(body: str) -> None:
    assert fault(Reply(400, {}, [(0.0, body.encode())], 0.0)) == ("http 400", "no")


def test_a_wall_clock_that_jumps_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour forth and back at every look: the monotonic clock judges, timers of the kernel among it."""
    jumps = iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: 1e9 + 3600.0 * (next(jumps) % 2))
    told = asyncio.run(self_test(Endpoint("http://127.0.0.1:9/"), SelfTest(200.0, 20), time.perf_counter))
    assert len(told.late) == 20
    assert max(told.late) < 1.0
    assert told.wall < 2.0
    assert getattr(time, "CLOCK_MONOTONIC", 1) == driver._MONOTONIC
