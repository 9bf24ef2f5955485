"""A sender alone: what it sends to the endpoint goes to a server of its own process, on loopback.

The server answers at once and looks at nothing, so that what is late, or takes CPU time, is the sender."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import structs

from laptime.loadgen.driver import Driver
from laptime.loadgen.endpoint import DONE, client_of
from laptime.loadgen.messages import Endpoint, Level, SelfTest, SelfTested
from laptime.records.requests import Answer

_LEAD, _PATIENCE = 0.01, 1.0
_WHOLE = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{"ok": true}'
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class _Server(asyncio.Protocol):
    """Answers each request with the same pieces, one in each turn of the loop."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._transport: Any = None
        self._came = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, gap, body = self._came.partition(b"\r\n\r\n")
        if gap and len(body) >= _length(head):
            self._came = b""
            self._write(0)

    def _write(self, at: int) -> None:
        self._transport.write(self._pieces[at])
        if at + 1 < len(self._pieces):
            asyncio.get_running_loop().call_soon(self._write, at + 1)


def _length(head: bytes) -> int:
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)


def pieces(kind: str, chunks: int) -> list[bytes]:
    """An answer: whole, or a stream of so many chunks with a token each (kind: chat or completions)."""
    if not kind:
        return [_WHOLE]
    said = {"delta": {"content": " word"}} if kind == "chat" else {"text": " word"}
    event = {"id": "loopback", "model": "loopback", "choices": [{"index": 0, "finish_reason": None, **said}]}
    last = {"index": 0, "finish_reason": "length", **said}
    usage = {"prompt_tokens": 1, "completion_tokens": chunks}
    events = [_event(msgspec.json.encode(event))] * (chunks - 1)
    ended = _event(msgspec.json.encode({**event, "choices": [last], "usage": usage})) + _event(DONE)
    return [_HEAD, *events, ended + b"0\r\n\r\n"]


def _event(data: bytes) -> bytes:
    text = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(text), text)


async def self_test(endpoint: Endpoint, test: SelfTest, now: Callable[[], float]) -> SelfTested:
    """Send requests at a rate, with the endpoint's own headers and bodies."""
    answer = pieces(endpoint.stream, max(1, test.chunks))
    server = await asyncio.get_running_loop().create_server(lambda: _Server(answer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = client_of(structs.replace(endpoint, url=f"http://127.0.0.1:{port}/"), now)
    due = [at / test.rate for at in range(test.requests)]
    level = Level(now() + _LEAD, due[-1], due=due, index=list(range(len(due))), patience=_PATIENCE)
    answers: list[Answer] = []
    cpu, wall = time.process_time(), now()
    try:
        await Driver(client, level, now=now, report=answers.append).run()
    finally:
        client.close()
        server.close()
    late = [answer.woken - answer.due for answer in answers]
    return SelfTested(late, time.process_time() - cpu, now() - wall)
