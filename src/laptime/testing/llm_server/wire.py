"""The messages on the wire: requests read, chunks and answers written, in the shapes of OpenAI and vLLM.

`ServerMetrics` are the server's own numbers, in the names and the text format of vLLM's `/metrics`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from laptime.testing.llm_server.engine import Answer, Job, Script

DONE = b"data: [DONE]\n\n"


class BadRequest(Exception):
    """A request that is answered with an error of this status."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    def body(self) -> dict[str, Any]:
        return {"error": {"message": str(self), "type": self.kind, "param": None, "code": self.status}}


class Request(msgspec.Struct, frozen=True):
    """A client's request, in tokens; a word of text is one token, and so is a number of a list."""

    chat: bool
    prompt: int
    output: int
    stream: bool
    usage: bool
    usage_in_every_chunk: bool


def read_request(body: Any, script: Script, *, chat: bool) -> Request:
    """A request from its decoded JSON.
    Raises BadRequest: it is none, names another model, or does not fit into the context."""
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
            choice["delta"] = self._say(text, reasons)
        else:
            choice["text"] = text
        return self._event([choice])

    def _say(self, text: str, reasons: bool) -> dict[str, Any]:
        if reasons:
            return {self._answer.reasoning_field: text}
        if self._answer.channel == "tool_calls":
            return {"tool_calls": [{"index": 0, "type": "function", "function": {"arguments": text}}]}
        return {"content": text}

    def end(self) -> bytes:
        """Return the bytes after the last chunk."""
        return (self._event([], usage=True) if self._request.usage and self._answer.usage else b"") + DONE

    def whole(self, tokens: int, finish: str) -> dict[str, Any]:
        self._sent = tokens
        text = "".join(f" w{at}" for at in range(tokens))
        said = {"message": {"role": "assistant", "content": text}} if self._request.chat else {"text": text}
        usage = {"usage": self._usage()} if self._answer.usage else {}
        return {**self._head, "choices": [{"index": 0, "finish_reason": finish, **said}], **usage}

    def _event(self, choices: list[dict[str, Any]], *, usage: bool = False) -> bytes:
        document: dict[str, Any] = {**self._head, "choices": choices}
        if usage or (self._request.usage_in_every_chunk and self._answer.usage):
            document["usage"] = self._usage()
        return b"data: " + msgspec.json.encode(document) + b"\n\n"

    def _usage(self) -> dict[str, int]:
        output = self._sent + self._answer.usage_error
        prompt = self._request.prompt
        return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_REASONS = ("stop", "length", "abort", "error")


@dataclass
class _Histogram:
    name: str
    bounds: Sequence[float]
    counts: list[int] = field(init=False)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def number(self) -> int:
        return sum(self.counts)

    def lines(self, labels: str) -> list[str]:
        below, lines = 0, [f"# TYPE {self.name} histogram"]
        for bound, count in zip([*map(float, self.bounds), "+Inf"], self.counts, strict=True):
            below += count
            lines.append(f'{self.name}_bucket{{{labels},le="{bound}"}} {float(below)}')
        return [
            *lines,
            f"{self.name}_count{{{labels}}} {float(below)}",
            f"{self.name}_sum{{{labels}}} {self.sum!r}",
        ]


class ServerMetrics:
    """Counters and histograms over the server's life; times are in seconds."""

    def __init__(self, script: Script) -> None:
        self._labels = f'engine="0",model_name="{script.model}"'
        self._tokens_error = script.metrics_tokens_error
        self._ttft_error = script.metrics_ttft_error
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.finished = dict.fromkeys(_REASONS, 0)
        self.ttft = _Histogram("vllm:time_to_first_token_seconds", _SECONDS)
        self.itl = _Histogram("vllm:inter_token_latency_seconds", _SECONDS)
        self.latency = _Histogram("vllm:e2e_request_latency_seconds", _SECONDS)
        self.queue = _Histogram("vllm:request_queue_time_seconds", _SECONDS)
        self.prefill = _Histogram("vllm:request_prefill_time_seconds", _SECONDS)
        self.decode = _Histogram("vllm:request_decode_time_seconds", _SECONDS)
        self.prompt = _Histogram("vllm:request_prompt_tokens", _TOKENS)
        self.output = _Histogram("vllm:request_generation_tokens", _TOKENS)

    def observe(self, job: Job) -> None:
        """Count the token that a job has just gained, and the job if it was the last one."""
        self.generation_tokens += 1
        if len(job.tokens) == 1:
            self.prompt_tokens += job.prompt
            self.ttft.add(job.ttft + self._ttft_error)
        else:
            self.itl.add(job.tokens[-1] - job.tokens[-2])
        if len(job.tokens) == job.output:
            self.finished[job.finish] += 1
            self.latency.add(job.latency)
            self.queue.add(job.queue)
            self.prefill.add(job.ttft - job.queue)
            self.decode.add(job.tokens[-1] - job.tokens[0])
            self.prompt.add(job.prompt)
            self.output.add(job.output)

    def text(self, *, running: int, waiting: int) -> str:
        """All of them, for so many requests that run and wait now."""
        labels = self._labels
        lines = []
        for name, kind, value in (
            ("num_requests_running", "gauge", running),
            ("num_requests_waiting", "gauge", waiting),
            ("prompt_tokens", "counter", self.prompt_tokens),
            (
                "generation_tokens",
                "counter",
                self.generation_tokens + self._tokens_error * self.output.number,
            ),
        ):
            suffix = "_total" if kind == "counter" else ""
            lines += [f"# TYPE vllm:{name} {kind}", f"vllm:{name}{suffix}{{{labels}}} {float(value)}"]
        lines.append("# TYPE vllm:request_success counter")
        lines += [
            f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {float(number)}'
            for reason, number in self.finished.items()
        ]
        for histogram in vars(self).values():
            if isinstance(histogram, _Histogram):
                lines += histogram.lines(labels)
        return "\n".join(lines) + "\n"
