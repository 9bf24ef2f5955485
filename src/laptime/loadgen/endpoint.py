"""Requests to an address, and what is made of each answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from laptime.loadgen.connection import Broken, Pool, Reply, Request, request
from laptime.loadgen.messages import Endpoint
from laptime.records.requests import Answer

MOST_DETAIL = 300


class Client(Protocol):
    """Sends request number `index` of a level, and waits for its answer."""

    def conversation(self, index: int, due: float, woken: float) -> AsyncIterator[Answer]:
        """The request and those that follow on its answer, each due when the one before it was answered."""
        ...

    async def send(self, index: int, due: float, woken: float) -> Answer:
        """What became of the request; never raises but for a cancellation."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class HttpClient:
    """One request, one answer: its latency ends with the last byte."""

    def __init__(self, endpoint: Endpoint, now: Callable[[], float]) -> None:
        url = urlsplit(endpoint.url)
        self._now = now
        self._timeout = endpoint.timeout
        self._pool = Pool(url, now, verify=endpoint.verify)
        bodies = [body.encode() for body in endpoint.bodies] or [b""]
        self.requests = [request(endpoint.method, url, endpoint.headers, body) for body in bodies]

    async def send(self, index: int, due: float, woken: float) -> Answer:
        """As in Client."""
        return (await self.exchange(self.requests[index % len(self.requests)], index, due, woken))[0]

    async def conversation(self, index: int, due: float, woken: float) -> AsyncIterator[Answer]:
        """As in Client: one request."""
        yield await self.send(index, due, woken)

    async def exchange(
        self, asked: Request, index: int, due: float, woken: float
    ) -> tuple[Answer, Reply | None]:
        """Send a request; what became of it, and the reply where one came."""
        sent = self._now()
        try:
            reply = await self._pool.answer(asked, self._timeout)
        except Broken as broken:
            return Answer(index, due, woken, sent, 0.0, self._now(), broken.kind, str(broken)), None
        return self.read(Answer(index, due, woken, sent, 0.0, reply.end), reply), reply

    def read(self, answer: Answer, reply: Reply) -> Answer:
        """The answer, with what the reply says."""
        error, detail = fault(reply)
        return Answer(
            answer.number,
            answer.due,
            answer.woken,
            answer.sent,
            reply.parts[0][0] if reply.parts else 0.0,
            reply.end,
            error,
            detail,
            reply.status,
            sum(len(part) for _, part in reply.parts),
        )

    def close(self) -> None:
        """As in Client."""
        self._pool.close()


def fault(reply: Reply) -> tuple[str, str]:
    """Kind and words of what is wrong with a reply; ("", "") where nothing is."""
    if reply.broken is not None:
        return reply.broken.kind, str(reply.broken)
    if not 200 <= reply.status < 300:
        text = _message(b"".join(part for _, part in reply.parts))
        return f"http {reply.status}", " ".join(text.split())[:MOST_DETAIL]
    return "", ""


def _message(body: bytes) -> str:
    """What an error says in words, where it is a document as OpenAI's API has it; else all of it."""
    with suppress(msgspec.DecodeError, KeyError, TypeError):
        return str(msgspec.json.decode(body)["error"]["message"])
    return body[: 2 * MOST_DETAIL].decode(errors="replace")
