"""An LLM engine with continuous batching whose times are arithmetic: what every latency must be.

Time is a number that the caller moves. `play` moves it without waiting; the server moves it by the clock. The
same arrivals give the same times either way.

The `Script` says what the server is and how it answers: plain data, so that it travels to another process."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

Channel = Literal["content", "reasoning", "tool_calls"]
End = Literal["done", "cut", "error", "garbage", "stall", "die"]


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of one iteration: `base + prefill_token x tokens of new prompts + running x requests`."""

    base: float = 0.010
    prefill_token: float = 0.0001
    running: float = 0.001

    def seconds(self, prefill_tokens: int, running: int) -> float:
        """Seconds of an iteration that reads so many tokens of prompts and serves so many requests."""
        return self.base + self.prefill_token * prefill_tokens + self.running * running


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one request is answered; as it stands, correctly and completely."""

    status: int = 200  # HTTP status; other than 200, `body` is all that comes
    headers: dict[str, str] = {}  # more headers of the answer: `{"retry-after": "1"}`
    body: str = ""  # text instead of an answer, also with status 200: `<html>` of a proxy
    output: int | None = None  # tokens to generate whatever was asked; None generates `max_tokens`, 0 not one
    tokens_per_chunk: int = 1  # tokens in a chunk of a stream
    blank_every: int = 0  # every so many-th chunk has the text "", though it is tokens (half of a character)
    # a chat stream begins with a chunk that has a role and no token, before any waiting
    role_chunk: bool = True
    channel: Channel = "content"  # where the tokens go
    reasoning: int = 0  # so many tokens go to the channel `reasoning` before others go to `channel`
    reasoning_field: str = "reasoning"  # its name; older servers say `reasoning_content`
    usage: bool = True  # whether a stream tells the usage that it is asked for
    usage_error: int = 0  # tokens that `completion_tokens` is wrong by
    # how it ends: the connection is cut, an `error` event, a line that is no JSON, nothing for an hour, or
    # the server's process dies
    end: End = "done"
    after: int = 0  # tokens that are sent before an end other than `done`


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cost: Cost = Cost()
    slots: int = 16  # requests that run at once; others wait
    model: str = "scripted"
    context: int = 4096  # tokens that prompt and output may have together
    # the n-th request gets the n-th answer, and the first again after the last
    answers: tuple[Answer, ...] = (Answer(),)
    api_key: str = ""  # requests without `Authorization: Bearer API_KEY` get 401; "" asks for none
    metrics: bool = True  # whether `/metrics` answers
    # tokens by which its counter of generated tokens is wrong, for every request
    metrics_tokens_error: int = 0
    # seconds by which the time to the first token in it is wrong, for every request
    metrics_ttft_error: float = 0.0


@dataclass(eq=False)
class Job:
    """One request in the engine; times are in seconds on the engine's clock."""

    number: int
    arrival: float
    prompt: int  # tokens of the prompt, all read in the iteration that admits it
    output: int  # tokens to generate, at least 1
    finish: str = "length"  # why it ends: `length`, or `stop` if fewer tokens come than were asked for
    admitted: float | None = None  # start of that iteration; None before it
    tokens: list[float] = field(default_factory=list)  # when each token was there

    @property
    def queue(self) -> float:
        """Seconds between arrival and admission; NaN before it."""
        return math.nan if self.admitted is None else self.admitted - self.arrival

    @property
    def ttft(self) -> float:
        """Time to the first token: seconds after arrival."""
        return self.tokens[0] - self.arrival

    @property
    def itl(self) -> list[float]:
        """Inter-token latencies: `output - 1` gaps in seconds."""
        return [after - before for before, after in zip(self.tokens, self.tokens[1:], strict=False)]

    @property
    def tpot(self) -> float:
        """Time per output token after the first; NaN for an answer of one token."""
        tokens = self.tokens
        return (tokens[-1] - tokens[0]) / (len(tokens) - 1) if len(tokens) > 1 else math.nan

    @property
    def latency(self) -> float:
        """Seconds from arrival to the last token."""
        return self.tokens[-1] - self.arrival


class Engine:
    """Serves jobs in order of arrival, at most `slots` at once; each gets one token an iteration."""

    def __init__(self, cost: Cost, slots: int) -> None:
        self.cost = cost
        self.slots = slots
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self._end = -math.inf

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def submit(self, job: Job) -> None:
        """Add a job; jobs come in order of arrival."""
        self.waiting.append(job)

    def cancel(self, job: Job) -> None:
        """Forget a job whose client went away; the iteration that computes it takes its time nevertheless."""
        for jobs in (self.waiting, self.running):
            if job in jobs:
                jobs.remove(job)

    def begin(self) -> float:
        """Begin the next iteration, after the last one or when the next job arrives; its end."""
        start = self._end if self.running else max(self._end, self.waiting[0].arrival)
        prefill = 0
        while self.waiting and len(self.running) < self.slots and self.waiting[0].arrival <= start:
            job = self.waiting.popleft()
            job.admitted = start
            prefill += job.prompt
            self.running.append(job)
        self._end = start + self.cost.seconds(prefill, len(self.running))
        return self._end

    def finish(self) -> list[Job]:
        """The jobs that gained a token when the iteration ended; those that are done leave."""
        served = self.running
        for job in served:
            job.tokens.append(self._end)
        self.running = [job for job in served if len(job.tokens) < job.output]
        return served


def play(cost: Cost, slots: int, jobs: Iterable[Job]) -> list[Job]:
    """Serve jobs in virtual time and fill in `admitted` and `tokens`; returns them in order of arrival."""
    engine = Engine(cost, slots)
    ordered = sorted(jobs, key=lambda job: (job.arrival, job.number))
    for job in ordered:
        engine.submit(job)
    while engine.busy:
        engine.begin()
        engine.finish()
    return ordered


def tokens_per_second(jobs: Iterable[Job]) -> float:
    """Output tokens per second between the first arrival and the last token."""
    served = [job for job in jobs if job.tokens]
    span = max(job.tokens[-1] for job in served) - min(job.arrival for job in served)
    return sum(len(job.tokens) for job in served) / span
