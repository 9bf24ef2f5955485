"""What crosses the pipe between laptime and a sender: JSON lines, commands in, messages out.

All times are seconds on the machine's monotonic clock, which its processes share.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from laptime.records.case import Failure
from laptime.records.plan import Variant


class Endpoint(Struct, frozen=True, tag="endpoint"):
    """An address that requests go to, and what is sent.

    Attributes:
        url: without user and password.
        headers: as sent; they may hold secrets, which is why no sender gets them on its command line.
        bodies: of the requests, used in turn; [] sends none. Text.
        stream: answers are streams of a language model: chat or completions.
        timeout: seconds that one request may take.
        verify: whether a TLS certificate is checked.
        turns: requests of a conversation; each later one holds what was said before, and the next of `later`.
    """

    url: str
    method: str = "GET"
    headers: list[tuple[str, str]] = []
    bodies: list[str] = []
    stream: str = ""
    timeout: float = 120.0
    verify: bool = True
    turns: int = 1
    later: list[str] = []


class Program(Struct, frozen=True, tag="program"):
    """A program that the sender loads and calls itself, one call at a time."""

    variant: Variant
    batch: int = 1


class Level(Struct, frozen=True, tag="level"):
    """One level of load.

    Attributes:
        begin: when the first request may go.
        due: when each request is due, from `begin` on; [] where users send one after another.
        index: number of each request in the whole level.
        limit: requests that may be under way at once; None: any number.
        users: so many send one request after another, from `begin` until `end`.
        requests: so many at most, of all users together. first: number of the first request of users.
        patience: seconds after the last request was due until waiting for answers ends.
    """

    begin: float
    end: float
    due: list[float] = []
    index: list[int] = []
    limit: int | None = None
    users: int = 0
    requests: int | None = None
    first: int = 0
    patience: float = 30.0


class SelfTest(Struct, frozen=True, tag="self_test"):
    """Send what the endpoint gets to a server of the sender's own, on loopback.

    Attributes:
        rate: requests per second. requests: so many. chunks: of an answer's stream; 0: it comes in one piece.
    """

    rate: float
    requests: int
    chunks: int = 0


class Stop(Struct, frozen=True, tag="stop"):
    """Begin no more requests of this level; those under way are waited for."""


class Close(Struct, frozen=True, tag="close"):
    """End."""


Command = Endpoint | Program | Level | SelfTest | Stop | Close


class Answer(Struct, frozen=True, array_like=True):
    """What is known of one request.

    Attributes:
        index: number in its level.
        due: when it was to be sent; of users: when the one before was answered.
        woken: when the sender turned to it. sent: when it was written: before, it waited for its turn.
        first: when the first byte of the answer's body (a language model: the first token) came; 0: none did.
        end: when the last came, or when it failed.
        error: its kind, "" where none; `detail` in words.
        status: of HTTP; 0: none came.
        size: bytes of the answer's body.
        chunks: when each chunk with a token came, from `sent` on.
        usage: tokens in and out as the server counts them, cached ones; [] where it did not.
        turn: of its conversation, from 0 on.
    """

    index: int
    due: float
    woken: float
    sent: float
    first: float
    end: float
    error: str = ""
    detail: str = ""
    status: int = 0
    size: int = 0
    chunks: list[float] = []
    usage: list[int] = []
    turn: int = 0


class Opened(Struct, frozen=True, tag="opened"):
    """The target answers. `facts`: what is known of it."""

    facts: dict[str, Any] = {}


class Answers(Struct, frozen=True, tag="answers"):
    """Requests that ended since the last message."""

    answers: list[Answer]


class LevelDone(Struct, frozen=True, tag="level_done"):
    """All requests of a level ended, or were given up.

    Attributes:
        cpu: CPU seconds that the sender used, of `wall` seconds.
        stalls: [begin, seconds] of each time for which the sender itself stood still.
    """

    cpu: float
    wall: float
    stalls: list[list[float]] = []


class SelfTested(Struct, frozen=True, tag="self_tested"):
    """What a sender does alone.

    Attributes:
        late: seconds by which each request was sent late.
        cpu: CPU seconds that it used, its own server's among them, of `wall` seconds.
    """

    late: list[float]
    cpu: float
    wall: float


class Refused(Struct, frozen=True, tag="refused"):
    """The target cannot be used, or the sender failed."""

    failure: Failure


Message = Opened | Answers | LevelDone | SelfTested | Refused

decode_command: Any = msgspec.json.Decoder(Command).decode
decode_message: Any = msgspec.json.Decoder(Message).decode
encode: Any = msgspec.json.Encoder().encode
