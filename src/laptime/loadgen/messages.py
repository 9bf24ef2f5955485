"""The messages between laptime and a sender: JSON lines, commands in, messages out.

All times are seconds on the machine's monotonic clock, which its processes share."""

from typing import Any

import msgspec
from msgspec import Struct

from laptime.records.case import Failure
from laptime.records.plan import Variant
from laptime.records.requests import Answer


class Endpoint(Struct, frozen=True, tag="endpoint"):
    """An address that requests go to, and what is sent."""

    url: str  # without user and password
    method: str = "GET"
    # as sent; they may hold secrets, which is why no sender gets them on its command line
    headers: list[tuple[str, str]] = []
    bodies: list[str] = []  # of the requests, used in turn; [] sends none. Text.
    stream: str = ""  # answers are streams of a language model: chat or completions
    timeout: float = 120.0  # seconds that one request may take
    verify: bool = True  # whether a TLS certificate is checked
    # requests of a conversation; each later one holds what was said before, and the next of `later`
    turns: int = 1
    later: list[str] = []


class Program(Struct, frozen=True, tag="program"):
    """A program that the sender loads and calls itself, one call at a time."""

    variant: Variant
    batch: int = 1


class Level(Struct, frozen=True, tag="level"):
    """One level of load."""

    begin: float  # when the first request may go
    end: float
    due: list[float] = []  # when each request is due, from `begin` on; [] if users send one after another
    index: list[int] = []  # number of each of them in the whole level
    limit: int | None = None  # requests that may be under way at once; None: any number
    users: int = 0  # so many send one request after another, from `begin` until `end`
    requests: int | None = None  # so many at most, of all users together
    # number of the first request of users; the next ones are `step` apart, because other senders send those
    # between them
    first: int = 0
    step: int = 1
    turns: int = 1  # requests of a conversation: the one with number n has the requests from n * turns on
    sender: int = 0  # number of the process that carries this out
    patience: float = 30.0  # seconds after the last request was due until waiting for answers ends

    def give_up(self, number: int, turn: int, due: float, woken: float, at: float) -> Answer:
        """The row of a request that nobody waits for any more."""
        return Answer(
            number, due, woken, woken, 0.0, at, "unanswered", "given up", turn=turn, sender=self.sender
        )


class SelfTest(Struct, frozen=True, tag="self_test"):
    """Send what the endpoint gets to a server of the sender's own, on loopback."""

    rate: float  # requests per second
    requests: int  # so many
    chunks: int = 0  # of an answer's stream; 0: it comes in one piece


class Stop(Struct, frozen=True, tag="stop"):
    """Begin no more requests of this level; those under way are waited for."""


class Close(Struct, frozen=True, tag="close"):
    """End."""


Command = Endpoint | Program | Level | SelfTest | Stop | Close


class Opened(Struct, frozen=True, tag="opened"):
    """The target answers. `facts`: what is known of it."""

    facts: dict[str, Any] = {}


class Answers(Struct, frozen=True, tag="answers"):
    """Rows of the requests that ended since the last message."""

    answers: list[Answer]


class LevelDone(Struct, frozen=True, tag="level_done"):
    """All requests of a level ended, or were given up."""

    cpu: float  # CPU seconds that the sender used, of `wall` seconds
    wall: float
    stalls: list[list[float]] = []  # [begin, seconds] of each time for which the sender itself stood still


class SelfTested(Struct, frozen=True, tag="self_tested"):
    """The result of a sender's test alone."""

    late: list[float]  # seconds by which each request was sent late
    cpu: float  # CPU seconds that it used, its own server's among them, of `wall` seconds
    wall: float


class Refused(Struct, frozen=True, tag="refused"):
    """The target cannot be used, or the sender failed."""

    failure: Failure


Message = Opened | Answers | LevelDone | SelfTested | Refused
decode_command: Any = msgspec.json.Decoder(Command).decode
decode_message: Any = msgspec.json.Decoder(Message).decode
encode: Any = msgspec.json.Encoder().encode
