"""What a scripted HTTP server does, as data."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True):
    """How one request is answered.

    Attributes:
        body: sent in `chunks` pieces.
        end: whole; cut (the connection breaks in the middle); never (no answer comes); die (the server ends).
    """

    status: int = 200
    body: str = '{"ok": true}'
    content_type: str = "application/json"
    chunks: int = 0
    end: Literal["whole", "cut", "never", "die"] = "whole"


class Script(Struct, frozen=True, kw_only=True):
    """The server.

    Attributes:
        slots: requests served at once; 0: any number.
        service: seconds of each. law: constant, or exponential with this mean.
        answers: of the requests, in turn.
    """

    slots: int = 1
    service: float = 0.0
    law: Literal["constant", "exponential"] = "constant"
    seed: int = 0
    answers: tuple[Answer, ...] = (Answer(),)


class Job(Struct, frozen=True, kw_only=True):
    """One request: when it arrived, when its service began and ended."""

    arrival: float
    begin: float
    end: float
