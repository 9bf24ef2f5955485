"""What the scripted server is, and how it answers: plain data, so that it travels to another process."""

from __future__ import annotations

from typing import Literal

import msgspec

from laptime.testing.llm_server.engine import Cost

Channel = Literal["content", "reasoning", "tool_calls"]
End = Literal["done", "cut", "error", "garbage", "stall", "die"]


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one request is answered; as it stands, correctly and completely.

    Attributes:
        status: HTTP status; other than 200, `body` is all that comes.
        headers: more headers of the answer: `{"retry-after": "1"}`.
        body: text instead of an answer, also with status 200: `<html>` of a proxy.
        output: tokens to generate whatever was asked; None generates `max_tokens`, 0 not one.
        tokens_per_chunk: tokens in a chunk of a stream.
        blank_every: every so many-th chunk has the text "", though it is tokens (half of a character).
        role_chunk: a chat stream begins with a chunk that has a role and no token, before any waiting.
        channel: where the tokens go.
        reasoning: so many tokens go to the channel `reasoning` before others go to `channel`.
        reasoning_field: its name; older servers say `reasoning_content`.
        usage: whether a stream tells the usage that it is asked for.
        usage_error: tokens that `completion_tokens` is wrong by.
        end: how it ends: the connection is cut, an `error` event, a line that is no JSON, nothing for an
            hour, or the server's process dies.
        after: tokens that are sent before an end other than `done`.
    """

    status: int = 200
    headers: dict[str, str] = {}
    body: str = ""
    output: int | None = None
    tokens_per_chunk: int = 1
    blank_every: int = 0
    role_chunk: bool = True
    channel: Channel = "content"
    reasoning: int = 0
    reasoning_field: str = "reasoning"
    usage: bool = True
    usage_error: int = 0
    end: End = "done"
    after: int = 0


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A server.

    Attributes:
        slots: requests that run at once; others wait.
        context: tokens that prompt and output may have together.
        answers: the n-th request gets the n-th answer, and the first again after the last.
        api_key: requests without `Authorization: Bearer API_KEY` get 401; "" asks for none.
        metrics: whether `/metrics` answers.
        metrics_tokens_error: tokens by which its counter of generated tokens is wrong, for every request.
        metrics_ttft_error: seconds by which the time to the first token in it is wrong, for every request.
    """

    cost: Cost = Cost()
    slots: int = 16
    model: str = "scripted"
    context: int = 4096
    answers: tuple[Answer, ...] = (Answer(),)
    api_key: str = ""
    metrics: bool = True
    metrics_tokens_error: int = 0
    metrics_ttft_error: float = 0.0
