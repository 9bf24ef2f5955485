"""HTTP/1.1 connections on h11: the clock is read as bytes come, before anything else.

No redirect is followed, nothing is sent a second time, nothing is decompressed: what is timed is what the
server does with one request."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult

import h11

Clock = Callable[[], float]
IDLE = 4.0  # seconds after which an idle connection is not used again: many servers close theirs after five


class Broken(Exception):
    """A request that had no whole answer; `kind` counts it, the text says why."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class Request(NamedTuple):
    """Ready to be sent."""

    head: h11.Request
    body: bytes


class Reply(NamedTuple):
    """An answer: `parts` are the times and bytes of its body as they came."""

    status: int
    headers: dict[str, str]
    parts: list[tuple[float, bytes]]
    end: float
    broken: Broken | None = None

    @property
    def body(self) -> bytes:
        """All of its parts together."""
        return b"".join(part for _, part in self.parts)


def request(method: str, url: SplitResult, headers: Sequence[tuple[str, str]], body: bytes) -> Request:
    """A request with what HTTP/1.1 asks for: host and length."""
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    have = {name.lower() for name, _ in headers}
    own = [("host", url.netloc.rpartition("@")[2]), ("accept-encoding", "identity")]
    own += [("content-length", str(len(body)))] if body else []
    sent = [(name, value) for name, value in own if name not in have] + list(headers)
    return Request(h11.Request(method=method, target=path, headers=sent), body)


class Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._http = h11.Connection(h11.CLIENT)
        self._transport: Any = None
        self._waiter: asyncio.Future[Reply] | None = None
        self._status = 0
        self._headers: dict[str, str] = {}
        self._parts: list[tuple[float, bytes]] = []
        self.since = 0.0
        self.is_open = False

    def connection_made(self, transport: Any) -> None:
        """The connection stands."""
        self._transport, self.is_open = transport, True

    async def answer(self, asked: Request) -> Reply:
        """Send a request and wait for the whole answer, or for what came of it."""
        self._status, self._headers, self._parts = 0, {}, []
        self._waiter = asyncio.get_running_loop().create_future()
        http = self._http
        data = http.send(asked.head) or b""
        if asked.body:
            data += http.send(h11.Data(data=asked.body)) or b""
        self._transport.write(data + (http.send(h11.EndOfMessage()) or b""))
        return await self._waiter

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        at = self._now()
        try:
            self._http.receive_data(data)
            self._events(at)
        except h11.RemoteProtocolError as error:
            self._finish(at, Broken("no http", str(error)))

    def _events(self, at: float) -> None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Data):
                self._parts.append((at, bytes(event.data)))
            elif isinstance(event, h11.Response):
                self._status = event.status_code
                self._headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in event.headers}
            elif isinstance(event, h11.EndOfMessage):
                return self._finish(at)
            elif event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
                return None

    def _finish(self, at: float, broken: Broken | None = None) -> None:
        waiter, self._waiter = self._waiter, None
        if broken is None and self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self.since = at
        else:
            self.close()
        if waiter is not None and not waiter.done():
            waiter.set_result(Reply(self._status, self._headers, self._parts, at, broken))

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone: perhaps in the middle of an answer."""
        self.is_open = False
        if self._waiter is None:
            return
        at = self._now()
        try:
            self._http.receive_data(b"")
            self._events(at)  # an answer without a length ends so
        except h11.RemoteProtocolError:
            pass
        if self._waiter is not None:
            why = str(error) if error else "the server closed the connection"
            self._finish(at, Broken("cut" if self._status else "closed", why))

    def close(self) -> None:
        """End the connection; no answer is waited for any more."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()


class Pool:
    """Connections to one address: an idle one is used again, and one more is opened if none is.

    Args:
        now: the clock that answers are timed with.
        verify: whether a certificate is checked.
    """

    def __init__(self, url: SplitResult, now: Clock, *, verify: bool = True) -> None:
        self._host = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._now = now
        self._idle: deque[Connection] = deque()
        self._tls = _tls(verify) if url.scheme == "https" else None

    async def answer(self, asked: Request, timeout: float) -> Reply:
        """The answer to a request. Raises Broken: no connection was to be had."""
        connection: Connection | None = None
        try:
            async with asyncio.timeout(timeout):
                connection = self._at_hand() or await self._connect()
                reply = await connection.answer(asked)
        except TimeoutError:
            if connection is None:
                raise Broken("timeout", f"no connection within {timeout:g} s") from None
            status, parts = connection._status, connection._parts
            connection.close()
            return Reply(status, {}, parts, self._now(), Broken("timeout", f"no answer within {timeout:g} s"))
        except asyncio.CancelledError:
            if connection is not None:
                connection.close()
            raise
        if connection.is_open:
            self._idle.append(connection)
        return reply

    def _at_hand(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()  # the one used last: others may age and go
            if connection.is_open and self._now() - connection.since < IDLE:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            _, protocol = await loop.create_connection(
                lambda: Connection(self._now), self._host, self._port, ssl=self._tls
            )
        except ssl.SSLError as error:
            raise Broken("tls", getattr(error, "verify_message", "") or error.reason or str(error)) from None
        except ConnectionError as error:
            raise Broken("refused", error.strerror or str(error)) from None
        except OSError as error:
            raise Broken("no connection", error.strerror or str(error)) from None
        return protocol

    def close(self) -> None:
        """End all idle connections."""
        while self._idle:
            self._idle.pop().close()


def _tls(verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
