"""What goes over the wire: requests read, chunks and answers written, in the shapes of OpenAI and vLLM."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from laptime.testing.llm_server.script import Answer, Script

DONE = b"data: [DONE]\n\n"


class BadRequest(Exception):
    """A request that is answered with an error of this status."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    def body(self) -> dict[str, Any]:
        """The error in vLLM's shape."""
        return {"error": {"message": str(self), "type": self.kind, "param": None, "code": self.status}}


class Request(msgspec.Struct, frozen=True):
    """What a client asked for, in tokens; a word of text is one token, and so is a number of a list."""

    chat: bool
    prompt: int
    output: int
    stream: bool
    usage: bool
    usage_in_every_chunk: bool


def read_request(body: Any, script: Script, *, chat: bool) -> Request:
    """A request from its decoded JSON.

    Raises:
        BadRequest: it is none, names another model, or does not fit into the context.
    """
    try:
        model = body["model"]
        prompt = _tokens(body["messages"] if chat else body["prompt"])
        output = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        options = body.get("stream_options") or {}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadRequest(400, "BadRequestError", f"the request lacks or mistakes {error}") from error
    if model != script.model:
        raise BadRequest(404, "NotFoundError", f"The model `{model}` does not exist.")
    if prompt + output > script.context:
        raise BadRequest(
            400,
            "BadRequestError",
            f"This model's maximum context length is {script.context} tokens. However, you requested "
            f"{output} output tokens and your prompt contains {prompt} input tokens. "
            f"(parameter=input_tokens, value={prompt})",
        )
    return Request(
        chat, prompt, output, bool(body.get("stream")),
        bool(options.get("include_usage")), bool(options.get("continuous_usage_stats")),
    )  # fmt: skip


def _tokens(prompt: Any) -> int:
    if isinstance(prompt, str):
        return len(prompt.split())
    if all(isinstance(each, int) for each in prompt):
        return len(prompt)
    # A message's content may be a list of parts, each with a text.
    return sum(_tokens(each["content"] if "content" in each else each["text"]) for each in prompt)


class Writer:
    """Writes the answer to one request."""

    def __init__(self, request: Request, answer: Answer, number: int, model: str) -> None:
        self._request = request
        self._answer = answer
        self._sent = 0
        self._chunks = 0
        kind = "chat.completion" if request.chat else "text_completion"
        self._head = {"id": f"cmpl-{number}", "object": kind, "created": 0, "model": model}
        if request.chat and request.stream:
            self._head["object"] = "chat.completion.chunk"

    @property
    def has_role_chunk(self) -> bool:
        """Whether a chunk with a role comes first."""
        return self._request.chat and self._answer.role_chunk

    def role(self) -> bytes:
        """The first chunk of a chat stream, which is no token."""
        return self._event(
            [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
        )

    def chunk(self, tokens: int, finish: str | None) -> bytes:
        """A chunk of so many new tokens; `finish` says why it is the last one."""
        self._chunks += 1
        blank = self._answer.blank_every and self._chunks % self._answer.blank_every == 0
        text = "" if blank else "".join(f" w{self._sent + at}" for at in range(tokens))
        reasons = self._sent < self._answer.reasoning or self._answer.channel == "reasoning"
        self._sent += tokens
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        if self._request.chat:
            choice["delta"] = self._said(text, reasons)
        else:
            choice["text"] = text
        return self._event([choice])

    def _said(self, text: str, reasons: bool) -> dict[str, Any]:
        if reasons:
            return {self._answer.reasoning_field: text}
        if self._answer.channel == "tool_calls":
            return {"tool_calls": [{"index": 0, "type": "function", "function": {"arguments": text}}]}
        return {"content": text}

    def end(self) -> bytes:
        """What follows the last chunk."""
        usage = b""
        if self._request.usage and self._answer.usage:
            usage = (
                b"data: "
                + json.dumps({**self._head, "choices": [], "usage": self._usage()}).encode()
                + b"\n\n"
            )
        return usage + DONE

    def whole(self, tokens: int, finish: str) -> dict[str, Any]:
        """The answer in one piece, for a request without a stream."""
        self._sent = tokens
        text = "".join(f" w{at}" for at in range(tokens))
        said = {"message": {"role": "assistant", "content": text}} if self._request.chat else {"text": text}
        usage = {"usage": self._usage()} if self._answer.usage else {}
        return {**self._head, "choices": [{"index": 0, "finish_reason": finish, **said}], **usage}

    def _event(self, choices: list[dict[str, Any]]) -> bytes:
        document: dict[str, Any] = {**self._head, "choices": choices}
        if self._request.usage_in_every_chunk and self._answer.usage:
            document["usage"] = self._usage()
        return b"data: " + msgspec.json.encode(document) + b"\n\n"

    def _usage(self) -> dict[str, int]:
        output = self._sent + self._answer.usage_error
        prompt = self._request.prompt
        return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
