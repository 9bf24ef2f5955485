"""Answers as servers give them: whatever a chunk looks like its tokens count, and who is refused waits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Any

import pytest

pytest.importorskip("h11")
pytest.importorskip("aiohttp")

from fixtures import llm_server
from fixtures.scripted_servers import served
from laptime.loadgen import endpoint
from laptime.loadgen.connection import Reply
from laptime.loadgen.driver import Driver
from laptime.loadgen.endpoint import advice, fault, first, read_stream
from laptime.loadgen.messages import Level
from laptime.records.requests import Answer
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load

STREAM = {"content-type": "text/event-stream; charset=utf-8"}
LAST = {"delta": {}, "finish_reason": "length"}


def read(*chunks: dict[str, Any] | str, headers: dict[str, str] = STREAM) -> Answer:
    """The answer that a stream of these chunks is, one every tenth of a second, and [DONE]."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in (*chunks, "[DONE]")]
    parts = [(0.1 * (at + 1), f"data: {line}\n\n".encode()) for at, line in enumerate(lines)]
    return read_stream(Answer(0, 0.0, 0.0, 0.0, 0.0, 9.0), Reply(200, headers, parts, 9.0))


def delta(**said: Any) -> dict[str, Any]:
    return {"choices": [{"delta": said, "finish_reason": None}]}


@pytest.mark.parametrize(
    "said",
    [
        {"content": "a"},
        {"content": [{"type": "text", "text": "a"}]},
        {"content": ["a"]},
        {"content": {"type": "text", "text": "a"}},
        {"content": [{"type": "output_text", "text": {"value": "a"}}]},
        {"reasoning": {"text": "hm"}},
        {"refusal": "no"},
        {"reasoning_content": "hm"},
        {"reasoning": "hm", "content": None},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
        {"function_call": {"arguments": "{"}, "content": None},
    ],
)
@pytest.mark.parametrize("tokens", [2, 2.0, "2"])
def test_tokens_of_any_channel_count_from_the_first(said: dict[str, Any], tokens: float) -> None:
    usage = {"prompt_tokens": tokens, "completion_tokens": tokens}
    answer = read(
        delta(role="assistant", content=""),
        delta(**said),
        delta(**said),
        {"choices": [LAST]},
        {"choices": None, "usage": usage},
    )
    assert (answer.error, answer.chunks, answer.usage) == ("", [0.2, 0.3], [2, 2, 0])


def test_a_finish_reason_that_is_empty_is_none_yet() -> None:
    chunk = {"choices": [{"text": "a", "finish_reason": ""}]}
    assert read(chunk, {"choices": [{"text": "", "finish_reason": "stop"}]}).chunks == [0.1]
    assert read(chunk, {"choices": [], "usage": {"completion_tokens": None}}).usage == []


@pytest.mark.parametrize(
    ("blank", "tokens", "chunks"),
    [
        ((0,), 4, [0.2, 0.3, 0.4, 0.5]),  # the first chunk is empty and none of the four tokens
        ((0,), 5, [0.1, 0.2, 0.3, 0.4, 0.5]),  # it is half a character
        ((0,), 16, [0.2, 0.3, 0.4, 0.5]),  # chunks of several tokens: an empty one is none
        ((4,), 4, [0.1, 0.2, 0.3, 0.4]),
        ((2,), 5, [0.1, 0.2, 0.3, 0.4, 0.5]),
        ((0, 2), 4, [0.2, 0.3, 0.4, 0.5]),
    ],
)
def test_an_empty_chunk_is_a_token_if_the_server_counted_one(
    blank: tuple[int, ...], tokens: int, chunks: list[float]
) -> None:
    said = [delta(content="" if at in blank else "a") for at in range(5)]
    answer = read(*said, {"choices": [LAST]}, {"choices": [], "usage": {"completion_tokens": tokens}})
    assert answer.chunks == chunks
    assert (answer.first, answer.end) == (chunks[0], chunks[-1])


@pytest.mark.parametrize("sizes", [(1, 4, 3), (3, 3, 1), (5, 3), (4, 4), (1, 1, 3, 2, 1)])
def test_the_first_chunk_has_its_share_of_the_tokens(sizes: tuple[int, ...]) -> None:
    """A server that guesses tokens ahead begins with one: by chunks of alike size 10 ms were told as 13."""
    at, parts = 0, []
    for size in sizes:
        at += size
        parts.append((0.01 * at, f"data: {json.dumps(delta(content=' an' * size))}\n\n".encode()))
    usage = json.dumps({"choices": [], "usage": {"completion_tokens": at}})
    parts.append((1.0, f"data: {usage}\n\ndata: [DONE]\n\n".encode()))
    answer = read_stream(Answer(0, 0.0, 0.0, 0.0, 0.0, 9.0), Reply(200, STREAM, parts, 9.0))
    assert answer.tpot == pytest.approx(0.01)


@pytest.mark.parametrize("kind", ["Text/Event-Stream; Charset=UTF-8", "text/plain", ""])
def test_a_stream_is_one_by_its_events_whatever_its_head_calls_it(kind: str) -> None:
    said = delta(content="a"), {"choices": [LAST]}, {"choices": [], "usage": {"completion_tokens": 1}}
    assert read(*said, headers={"content-type": kind}).error == ""
    body = Reply(200, {"content-type": kind or "text/html"}, [(0.1, b"<html>data: 1")], 0.1)
    assert read_stream(Answer(0, 0.0, 0.0, 0.0, 0.0, 9.0), body).error in ("no stream", "cut")


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_lines_end_in_any_way_and_may_be_cut_anywhere(ends: bytes, size: int) -> None:
    text = ends.join([b"event: a", b"data: 1", b"", b": ping", b"", b"data:2", b"data: 3", b"", b""])
    parts = [(float(at), text[at : at + size]) for at in range(0, len(text), size)]
    assert [data for _, data in endpoint.events(parts)] == [b"1", b"2\n3"]


@pytest.mark.parametrize("usage", [{"output_tokens": 1}, {"completion_tokens": 0}, {}])
def test_usage_in_other_names_or_of_nothing_is_no_count(usage: dict[str, int]) -> None:
    assert read(delta(content="a"), {"choices": [LAST]}, {"choices": [], "usage": usage}).usage == []


@pytest.mark.parametrize(("cached", "count"), [(64, 64), (64.0, 64), (None, 0), ("-", 0)])
def test_cached_tokens_may_be_any_number(cached: object, count: int) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": cached}}
    answer = read(delta(content="a"), {"choices": [LAST]}, {"choices": [], "usage": usage})
    assert answer.usage == [9, 1, count]


def test_a_redirect_names_where_it_leads() -> None:
    kind, detail = fault(Reply(307, {"location": "/new?key=secret"}, [], 0.0))
    assert (kind, detail) == ("http 307", "it leads to /new?key=secret")
    assert advice(kind, detail, "http://127.0.0.1:1/old").startswith("laptime load http://127.0.0.1:1/new ")


@pytest.mark.parametrize(
    ("asked", "seconds"), [("1", 1.0), ("0.5", 0.5), ("soon", 0.0), ("-3", 0.0), (formatdate(0), 0.0)]
)
def test_retry_after_is_read(asked: str, seconds: float) -> None:
    assert endpoint._retry_after(Reply(429, {"retry-after": asked}, [], 0.0)) == seconds


def test_retry_after_may_be_in_thousandths() -> None:
    assert endpoint._retry_after(Reply(429, {"retry-after-ms": "800", "retry-after": "1"}, [], 0.0)) == 0.8


def test_retry_after_may_be_a_date() -> None:
    asked = formatdate(time.time() + 30, usegmt=True)
    assert 28 <= endpoint._retry_after(Reply(503, {"retry-after": asked}, [], 0.0)) <= 30


class Refusing:
    """Refuses at once, but for the requests whose numbers are good."""

    def __init__(self, wait: float = 0.0, good: tuple[int, ...] = ()) -> None:
        self.wait, self.good, self.sent, self.now = wait, good, 0, time.perf_counter

    async def conversation(self, index: int, due: float, woken: float) -> AsyncIterator[Answer]:
        yield await self.send(index, due, woken)

    async def send(self, index: int, due: float, woken: float) -> Answer:
        self.sent += 1
        await asyncio.sleep(0)
        if self.sent in self.good:
            return Answer(index, due, woken, woken, woken, self.now(), status=200)
        return Answer(index, due, woken, woken, woken, self.now(), "http 429", status=429, wait=self.wait)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("wait", "least", "most"), [(0.0, 3, 6), (0.3, 2, 3)])
def test_users_who_are_refused_wait(wait: float, least: int, most: int) -> None:
    """Of 11,405 requests of a closed loop 11,065 were refused."""
    client, answers = Refusing(wait), []  # type: Refusing, list[Answer]
    level = Level(begin=time.perf_counter(), end=0.6, users=1)
    asyncio.run(Driver(client, level, now=time.perf_counter, report=answers.append).run())
    assert least <= len(answers) <= most


@pytest.mark.parametrize(("good", "status", "sent"), [((1,), 200, 1), ((3,), 200, 3), ((), 429, 3)])
def test_a_first_request_has_three_tries(
    good: tuple[int, ...], status: int, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PAUSES", (0.0, 0.0))
    client: Any = Refusing(good=good)
    assert asyncio.run(first(client)).status == status
    assert client.sent == sent


def test_a_connection_that_is_dropped_at_first_is_no_answer_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "PAUSES", (0.0, 0.0))
    dropped = Answer(0, 0.0, 0.0, 0.0, 0.0, 0.0, "closed", "the server closed the connection")
    whole = Answer(0, 0.0, 0.0, 0.0, 0.0, 0.0, status=200)

    class Dropping(Refusing):
        async def send(self, index: int, due: float, woken: float) -> Answer:
            self.sent += 1
            return whole if self.sent == 2 else dropped

    client: Any = Dropping()
    assert asyncio.run(first(client)) == whole


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_which_path_was_asked_is_kept(path: str) -> None:
    with served(llm_server.Script(cost=llm_server.Cost(base=0.001, prefill_token=0, running=0))) as url:
        target = url if path.startswith("chat") else f"{url}/completions"
        run = load(LoadRequest(target=target, rates=[5.0], requests=2, prompt=4, output=2, save=False))
    assert run.plan["path"].value == f"/v1/{path}"
