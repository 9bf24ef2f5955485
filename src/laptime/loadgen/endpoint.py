"""Requests to an address, and the row that is made of each answer: whole, or read as a stream of tokens.

Streams are those of OpenAI's API, as vLLM and others speak it. The time to the first token ends at the first
token of any channel: text, reasoning, a tool call. A chunk that only names the role is none; one with empty
text can be one, because half a character is streamed as "". How many tokens there were is what the server's
`usage` says, never the number of chunks."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import SplitResult, urljoin, urlsplit

import msgspec
from msgspec import Struct, structs

from laptime.kit.clock import SystemClock
from laptime.loadgen.connection import Broken, Clock, Pool, Reply, Request, request
from laptime.loadgen.messages import Endpoint
from laptime.records.requests import Answer

MOST_DETAIL = 300
PAUSES, LONGEST_PAUSE = (0.2, 1.0), 5.0  # seconds before a first request is sent again
_BUSY = (429, *range(500, 600))
_NEXT = {
    "refused": "start the server, or look at the port",
    "tls": "SSL_CERT_FILE=ca.pem laptime load ...   trusts a CA of your own; --insecure trusts anybody",
    **dict.fromkeys(("http 400", "http 422"), "--body x.json   with what this path takes"),
    **dict.fromkeys(("http 401", "http 403"), "--header 'Authorization: Bearer ...'"),
    "http 404": "look at the path of the address",
    "http 405": "--method POST, or --body x.json",
    "http 429": "the server limits requests: ask later, or with another key",
    "timeout": "--timeout 5m   if it is only slow",
}


class Client(Protocol):
    """Sends request number `index` of a level, and waits for its answer."""

    def conversation(self, index: int, due: float, woken: float) -> AsyncIterator[Answer]:
        """The request and those that follow on its answer, each due when the one before it was answered."""
        ...

    async def send(self, index: int, due: float, woken: float) -> Answer:
        """Send one request and return its outcome; never raises but for a cancellation."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class HttpClient:
    """One request, one answer: its latency ends with the last byte."""

    def __init__(self, endpoint: Endpoint, now: Callable[[], float]) -> None:
        url = urlsplit(endpoint.url)
        self.now = now
        self._timeout = endpoint.timeout
        self._pool = Pool(url, now, verify=endpoint.verify)
        bodies = [body.encode() for body in endpoint.bodies] or [b""]
        self.requests = [request(endpoint.method, url, endpoint.headers, body) for body in bodies]

    async def send(self, index: int, due: float, woken: float) -> Answer:
        """Send as Client does."""
        return (await self.exchange(self.requests[index % len(self.requests)], index, due, woken))[0]

    async def conversation(self, index: int, due: float, woken: float) -> AsyncIterator[Answer]:
        """Hold a conversation as Client does: one request."""
        yield await self.send(index, due, woken)

    async def exchange(
        self, asked: Request, index: int, due: float, woken: float
    ) -> tuple[Answer, Reply | None]:
        """Send a request; what became of it, and the reply if one came."""
        sent = self.now()
        try:
            reply = await self._pool.answer(asked, self._timeout)
        except Broken as broken:
            return Answer(index, due, woken, sent, 0.0, self.now(), broken.kind, str(broken)), None
        return self.read(Answer(index, due, woken, sent, 0.0, reply.end), reply), reply

    def read(self, answer: Answer, reply: Reply) -> Answer:
        """The answer, with what the reply says."""
        error, detail = fault(reply)
        size, first = sum(len(part) for _, part in reply.parts), reply.parts[0][0] if reply.parts else 0.0
        times = answer.number, answer.due, answer.woken, answer.sent, first, reply.end
        return Answer(*times, error, detail, reply.status, size, wait=_retry_after(reply))

    def close(self) -> None:
        """Close as Client does."""
        self._pool.close()


async def page(endpoint: Endpoint, url: SplitResult, timeout: float) -> Reply:
    """The reply of a server at another address, with an endpoint's headers. Raises Broken: there is none."""
    headers = [(name, value) for name, value in endpoint.headers if name.lower() != "content-type"]
    pool = Pool(url, SystemClock.now, verify=endpoint.verify)
    try:
        return await pool.answer(request("GET", url, headers, b""), timeout)
    finally:
        pool.close()


async def first(client: HttpClient) -> Answer:
    """The answer to a first request; one that is refused or dropped is sent again, three times in all."""
    for pause in (*PAUSES, None):
        answer = await client.send(0, client.now(), client.now())
        if pause is None or not (answer.status in _BUSY or answer.error in ("closed", "cut")):
            break
        await asyncio.sleep(min(answer.wait or pause, LONGEST_PAUSE))
    return answer


def _retry_after(reply: Reply) -> float:
    """Seconds that an answer asks to wait; 0: it does not say."""
    asked, thousandths = (reply.headers.get(f"retry-after{unit}", "") for unit in ("", "-ms"))
    with suppress(ValueError):
        return max(0.0, float(thousandths) / 1e3 if thousandths else float(asked))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    return 0.0


def fault(reply: Reply) -> tuple[str, str]:
    """Kind and words of what is wrong with a reply; ("", "") if nothing is."""
    if reply.broken is not None:
        return reply.broken.kind, str(reply.broken)
    if 300 <= reply.status < 400 and (moved := reply.headers.get("location")):
        return f"http {reply.status}", f"it leads to {moved}"
    if not 200 <= reply.status < 300:
        return f"http {reply.status}", " ".join(_message(reply.body).split())[:MOST_DETAIL]
    return "", ""


def _message(body: bytes) -> str:
    """Return the message of an error document, of OpenAI's API or FastAPI's say; else the whole body."""
    with suppress(msgspec.DecodeError):
        said = msgspec.json.decode(body)
        while isinstance(said, dict):
            said = next((said[name] for name in ("error", "message", "detail") if said.get(name)), None)
        if isinstance(said, str):
            return said
    return body[: 2 * MOST_DETAIL].decode(errors="replace")


DONE, _CALLED = b"[DONE]", ("name", "arguments")


class Delta(Struct):
    """The new part of a chat answer. Each channel is a text, a part with one, or a list of these."""

    role: str | None = None
    content: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: list[dict[str, Any]] | None = None
    function_call: dict[str, Any] | None = None


class Choice(Struct):
    """One of the answers that a request may ask for; here there is one."""

    text: str | None = None
    delta: Delta | None = None
    finish_reason: str | None = None


class Usage(Struct):
    """Tokens as the server counts them."""

    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    prompt_tokens_details: dict[str, Any] | None = None


class Chunk(Struct):
    """One event of a stream."""

    choices: list[Choice] | None = []
    usage: Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(Chunk, strict=False).decode  # a number may stand in quotes


class StreamClient(HttpClient):
    """Reads each answer as a stream."""

    def read(self, answer: Answer, reply: Reply) -> Answer:
        """Read as HttpClient does; `first` is the first token, and `end` the last."""
        whole = super().read(answer, reply)
        if whole.status and not 200 <= whole.status < 300:
            return whole
        return read_stream(whole, reply)


class ConversationClient(StreamClient):
    """Goes on after each answer: what was said, and the user's next message, are the next prompt."""

    def __init__(self, endpoint: Endpoint, now: Clock) -> None:
        super().__init__(endpoint, now)
        self._endpoint = endpoint

    async def conversation(self, index: int, due: float, woken: float) -> AsyncIterator[Answer]:
        """As in Client; one that fails is the last. Writing the next prompt is the generator's own time."""
        endpoint = self._endpoint
        body = msgspec.json.decode(endpoint.bodies[index % len(endpoint.bodies)])
        for turn in range(endpoint.turns):
            data = msgspec.json.encode(body)
            asked = request(endpoint.method, urlsplit(endpoint.url), endpoint.headers, data)
            answer, reply = await self.exchange(asked, index, due, self.now() if turn else woken)
            yield structs.replace(answer, number=index * endpoint.turns + turn, turn=turn)
            if answer.error or reply is None:
                return
            due = reply.end
            later = endpoint.later[(index + turn) % len(endpoint.later)] if endpoint.later else ""
            body["messages"] += [
                {"role": "assistant", "content": spoken(reply)},
                {"role": "user", "content": later},
            ]


def spoken(reply: Reply, *, aloud: bool = True) -> str:
    """The text of an answer. aloud: without what a model only thinks or calls, which no next prompt has."""
    chunks = [_decode(data) for _, data in events(reply.parts) if data != DONE]
    choices = [choice for chunk in chunks for choice in chunk.choices or ()]
    return "".join(
        _text(choice.delta.content) if choice.delta and aloud else token(choice) or "" for choice in choices
    )


def client_of(endpoint: Endpoint, now: Clock) -> HttpClient:
    """Return the client for an endpoint."""
    if endpoint.turns > 1:
        return ConversationClient(endpoint, now)
    return (StreamClient if endpoint.stream else HttpClient)(endpoint, now)


def read_stream(answer: Answer, reply: Reply) -> Answer:
    """An answer with the times of its tokens and the server's counts."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    said: list[tuple[float, str, bool]] = []  # when a chunk came, its text, whether it is the last
    usage: Usage | None = None
    has_ended = is_stream = False
    for at, data in events(reply.parts):
        is_stream = True
        if data == DONE:
            has_ended = True
            continue
        try:
            chunk = _decode(data)
        except msgspec.DecodeError as error:
            return _fail(answer, "no stream", f"a chunk is not what the API says: {error}")
        if chunk.error is not None:
            return _fail(answer, "error in the stream", str(chunk.error)[:300])
        usage = chunk.usage or usage
        for choice in chunk.choices or ():
            has_ended |= bool(choice.finish_reason)
            if (text := token(choice)) is not None:
                said.append((at, text, bool(choice.finish_reason)))
    if reply.parts and not answer.error and not is_stream and kind != "text/event-stream":
        return _fail(answer, "no stream", f"the answer is {kind or 'of no kind'}")
    held = _with_tokens(said, usage.completion_tokens if usage else None)
    answer = structs.replace(answer, usage=_counts(usage, [len(text) for _, text, _ in held]))
    if answer.error:
        return answer
    if not has_ended:
        return _fail(answer, "cut", "the stream ended in the middle of an answer")
    if not held:
        return _fail(answer, "no tokens", "the stream held no token")
    chunks = [round(at - answer.sent, 6) for at, _, _ in held]
    return structs.replace(answer, first=held[0][0], end=held[-1][0], chunks=chunks)


def _with_tokens(said: list[tuple[float, str, bool]], count: float | None) -> list[tuple[float, str, bool]]:
    """Return the chunks with tokens: those with text, and empty ones if the server counted a token for each.

    An empty chunk may hold half a character, or be the first or the last and hold nothing."""
    full = [chunk for chunk in said if chunk[1]]
    inner = [chunk for chunk in said if chunk[1] or not chunk[2]]
    after = [chunk for chunk in inner if full and chunk[0] >= full[0][0]]
    counted = next((chunks for chunks in (said, inner, after) if len(chunks) == count), full)
    return inner if count is None else counted or inner


def token(choice: Choice) -> str | None:
    """The text of a chunk that holds a token, perhaps ""; None of one that holds none."""
    if choice.delta is None:
        return choice.text
    delta = choice.delta
    if delta.tool_calls or delta.function_call:
        calls = [each.get("function") for each in delta.tool_calls or ()] + [delta.function_call]
        return "".join(_text(call.get(name)) for call in calls if call for name in _CALLED) or "tool call"
    channels = (delta.content, delta.refusal, delta.reasoning_content, delta.reasoning)
    said = [_text(channel) for channel in channels if channel is not None]
    text = "".join(said)
    return None if not said or (delta.role is not None and not text) else text


def _text(content: Any) -> str:
    """Return the text of a message's content, which may be a part with a text, or a list of parts."""
    if isinstance(content, dict):
        return _text(content.get("text", content.get("value")))
    return "".join(map(_text, content)) if isinstance(content, list) else str(content or "")


def events(parts: list[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """Data of server-sent events, each with the time at which its last byte came."""
    left, is_cut = b"", False  # between the two signs that end a line
    for at, part in parts:
        left += part[is_cut and part[:1] == b"\n" :].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        is_cut = part[-1:] == b"\r"
        *whole, left = left.split(b"\n\n")
        for event in whole:
            lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
            if lines:
                yield at, b"\n".join(lines)


def _counts(usage: Usage | None, sizes: list[int]) -> list[int]:
    """Return the row's counts. sizes: letters of each chunk; the first has its share of tokens."""
    if usage is None or not (usage.completion_tokens or usage.completion_tokens == len(sizes)):
        return []  # none, though there is text, is no count
    cached, made = (usage.prompt_tokens_details or {}).get("cached_tokens"), int(usage.completion_tokens)
    counts = [int(usage.prompt_tokens or 0), made, int(cached) if isinstance(cached, int | float) else 0]
    if not 1 < len(sizes) < made or not any(sizes):
        return counts
    first = round(made * sizes[0] / sum(sizes))
    return [*counts, max(1, min(first, made - len(sizes) + 1))]  # each of the others has one at least


def _fail(answer: Answer, kind: str, why: str) -> Answer:
    return structs.replace(answer, error=kind, detail=why)


def advice(kind: str, detail: str, address: str) -> str:
    """The next step, for an address without a query."""
    if "leads to " in detail:
        moved = urljoin(address, detail.rpartition(" ")[2].partition("?")[0])
        return f"laptime load {moved}   no redirect is followed"
    if kind == "tls" and "WRONG_VERSION" in detail:
        return address.replace("https://", "http://", 1) + "   if the server speaks no TLS"
    return _NEXT.get(kind, f"curl -i {address}   shows what it says")
