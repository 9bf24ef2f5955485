"""The scripted LLM server: its times are the formula's, and clients meet the faults of its script."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

import aiohttp
import pytest

from fixtures.llm_server import (
    Answer,
    Cost,
    Job,
    Script,
    ServerProcess,
    play,
    serving,
    tokens_per_second,
)
from fixtures.llm_server.wire import read_request
from fixtures.scripted_servers import served

COST = Cost(base=0.010, prefill_token=0.0001, running=0.001)


def test_alone_a_request_takes_what_the_formula_says() -> None:
    (job,) = play(COST, 4, [Job(0, 5.0, prompt=100, output=4)])
    assert job.ttft == pytest.approx(0.010 + 100 * 0.0001 + 0.001)
    assert job.itl == pytest.approx([0.011] * 3)
    assert job.tpot == pytest.approx(0.011)
    assert job.latency == pytest.approx(0.021 + 3 * 0.011)
    assert tokens_per_second([job]) == pytest.approx(4 / 0.054)


def test_a_prefill_stops_those_that_decode() -> None:
    first, second = play(COST, 4, [Job(0, 0.0, 0, 4), Job(1, 0.012, 1000, 2)])
    # Iterations end at 11, 22, 22 + 10 + 100 + 2 = 134 and 146 ms.
    assert first.tokens == pytest.approx([0.011, 0.022, 0.134, 0.146])
    assert second.tokens == pytest.approx([0.134, 0.146])
    assert second.queue == pytest.approx(0.022 - 0.012)


def test_a_full_server_lets_wait_in_order_of_arrival() -> None:
    jobs = play(COST, 1, [Job(n, 0.001 * n, 0, 10) for n in range(3)])
    assert [job.tokens[-1] for job in jobs] == pytest.approx([0.110, 0.220, 0.330])
    assert [job.queue for job in jobs] == pytest.approx([0.0, 0.109, 0.218])


async def ask(at: str, **more: Any) -> tuple[int, list[tuple[float, dict[str, Any]]], str]:
    """Status, events of the stream with their times, and how it ended."""
    chat = more.pop("chat", False)
    prompt = " ".join(["word"] * more.pop("prompt", 20))
    say: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
    body = {"model": "scripted", "max_tokens": 8, "stream": True, "stream_options": {"include_usage": True}}
    events, end = [], "no [DONE]"
    url = f"{at}/{'chat/' if chat else ''}completions"
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json={**body, **say, **more}) as reply,
        ):
            if reply.content_type != "text/event-stream":
                return reply.status, [], await reply.text()
            async for line in reply.content:
                if line == b"data: [DONE]\n":
                    end = "done"
                elif line.startswith(b"data: "):
                    events.append((time.monotonic(), json.loads(line[6:])))
            return 200, events, end
    except (aiohttp.ClientError, ValueError) as error:
        return 0, events, type(error).__name__


def one(answer: Answer, **more: Any) -> tuple[int, list[dict[str, Any]], str]:
    """What comes of one request; the server has a process of its own where it dies of it."""
    script = Script(cost=Cost(0.001, 0, 0), answers=(answer,))
    if answer.end == "die":
        with serving(script) as server:
            status, events, end = asyncio.run(ask(server.url, **more))
    else:
        with served(script) as url:
            status, events, end = asyncio.run(ask(url, **more))
    return status, [event for _, event in events], end


def test_the_server_keeps_the_engines_times_and_counts() -> None:
    script = Script(cost=COST, slots=2)

    async def burst(server: ServerProcess) -> list[Any]:
        return await asyncio.gather(*(ask(server.url, chat=bool(n % 2)) for n in range(6)))

    with serving(script) as server:
        answers = asyncio.run(burst(server))
        truth, metrics = server.truth(), server.metrics()
    again = play(COST, 2, [Job(job.number, job.arrival, job.prompt, job.output) for job in truth])
    assert [job.tokens for job in again] == [job.tokens for job in truth]
    sent = sorted(token for job in truth for token in job.tokens)
    seen = sorted(at for _, events, _ in answers for at, event in events if _is_token(event))
    assert len(seen) == len(sent) == 48
    assert all(late >= 0 for late in (a - b for a, b in zip(seen, sent, strict=True)))
    assert all(
        end == "done" and events[-1][1]["usage"]["completion_tokens"] == 8 for _, events, end in answers
    )
    assert _metric(metrics, "vllm:generation_tokens_total") == 48
    assert _metric(metrics, "vllm:prompt_tokens_total") == 120
    assert (
        _metric(
            metrics, 'vllm:request_success_total{engine="0",model_name="scripted",finished_reason="length"}'
        )
        == 6
    )
    assert _metric(metrics, "vllm:time_to_first_token_seconds_count") == 6
    assert _metric(metrics, "vllm:time_to_first_token_seconds_sum") == pytest.approx(
        sum(j.ttft for j in truth)
    )
    assert _metric(metrics, "vllm:inter_token_latency_seconds_count") == 42


def _is_token(event: dict[str, Any]) -> bool:
    return bool(event["choices"]) and "role" not in event["choices"][0].get("delta", {})


def _metric(text: str, name: str) -> float:
    (value,) = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    return float(value)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_status_is_all_that_comes(status: int) -> None:
    assert one(Answer(status=status, body='{"error": {}}')) == (status, [], '{"error": {}}')


def test_html_comes_instead_of_a_stream() -> None:
    assert one(Answer(body="<html>a proxy")) == (200, [], "<html>a proxy")


@pytest.mark.parametrize(
    ("answer", "tokens", "end"),
    [
        (Answer(end="cut", after=3), 3, "ClientPayloadError"),
        (Answer(end="die", after=3), 3, "ClientPayloadError"),
        (Answer(end="garbage", after=3), 3, "JSONDecodeError"),
        (Answer(output=0), 1, "done"),
        (Answer(output=5), 5, "done"),
    ],
)
def test_streams_end_as_scripted(answer: Answer, tokens: int, end: str) -> None:
    _, events, ended = one(answer)
    assert sum(_is_token(event) for event in events) == tokens
    assert ended == end
    if answer.output is not None:
        assert events[-1]["usage"]["completion_tokens"] == answer.output
        assert events[-2]["choices"][0]["finish_reason"] == "stop"


def test_an_error_event_ends_a_stream() -> None:
    _, events, _ = one(Answer(end="error", after=2))
    assert events[-1]["error"]["code"] == 500
    assert len(events) == 3


def test_usage_is_missing_or_lies() -> None:
    assert "usage" not in one(Answer(usage=False))[1][-1]
    assert one(Answer(usage_error=5))[1][-1]["usage"]["completion_tokens"] == 13


def test_usage_in_every_chunk_counts_up() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    _, events, _ = one(Answer(tokens_per_chunk=3), stream_options=options)
    assert [event["usage"]["completion_tokens"] for event in events] == [3, 6, 8, 8]


def test_chunks_hold_several_tokens_or_no_text() -> None:
    texts = [e["choices"][0]["text"] for e in one(Answer(tokens_per_chunk=3, blank_every=2))[1][:-1]]
    assert [len(text.split()) for text in texts] == [3, 0, 2]


def test_tokens_go_to_the_scripted_channels() -> None:
    _, events, _ = one(
        Answer(reasoning=2, channel="tool_calls", reasoning_field="reasoning_content"), chat=True
    )
    deltas = [next(iter(event["choices"][0]["delta"])) for event in events[:-1]]
    assert deltas == ["role", "reasoning_content", "reasoning_content", *["tool_calls"] * 6]
    assert next(iter(one(Answer(role_chunk=False), chat=True)[1][0]["choices"][0]["delta"])) == "content"


def test_wrong_requests_are_refused_as_vllm_does() -> None:
    assert one(Answer(), model="scriptd")[0] == 404
    status, _, body = one(Answer(), prompt=5000)
    assert (status, "length is 4096" in body) == (400, True)
    assert one(Answer(), stream=False)[2].startswith('{"id": "cmpl-0", "object": "text_completion"')


def test_the_content_of_a_message_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "one two"}, {"type": "text", "text": "three"}]
    body = {"model": "scripted", "messages": [{"role": "user", "content": parts}], "max_tokens": 2}
    assert read_request(body, Script(), chat=True).prompt == 3


def test_a_key_is_asked_for() -> None:
    with serving(Script(api_key="open")) as server:
        assert asyncio.run(ask(server.url))[0] == 401


def test_metrics_can_lie_or_be_absent() -> None:
    with serving(Script(metrics_tokens_error=-7)) as server:
        asyncio.run(ask(server.url))
        assert _metric(server.metrics(), "vllm:generation_tokens_total") == 8 - 7
    with serving(Script(metrics=False)) as server, pytest.raises(OSError, match="404"):
        server.metrics()


def test_the_truth_tells_requests_without_tokens_too() -> None:
    with serving(Script(answers=(Answer(output=0),))) as server:
        asyncio.run(ask(server.url))
        (job,) = server.truth()
    assert (job.tokens, job.admitted) == ([], None)


def test_a_client_that_goes_away_frees_its_slot() -> None:
    async def leave(server: ServerProcess) -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(server.url, max_tokens=3000), 0.1)
        began = time.monotonic()
        await ask(server.url, max_tokens=1)
        return time.monotonic() - began

    with serving(Script(cost=COST, slots=1)) as server:
        assert asyncio.run(leave(server)) < 5
        assert 'finished_reason="abort"} 1.0' in server.metrics()
