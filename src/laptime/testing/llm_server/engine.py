"""An LLM engine with continuous batching whose times are arithmetic: what every latency must be.

Time is a number that the caller moves. `play` moves it without waiting; the server moves it by the clock. The
same arrivals give the same times either way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of one iteration: `base + prefill_token x tokens of new prompts + running x requests`."""

    base: float = 0.010
    prefill_token: float = 0.0001
    running: float = 0.001

    def seconds(self, prefill_tokens: int, running: int) -> float:
        """Seconds of an iteration that reads so many tokens of prompts and serves so many requests."""
        return self.base + self.prefill_token * prefill_tokens + self.running * running


@dataclass(eq=False)
class Job:
    """One request in the engine; times are in seconds on the engine's clock.

    Attributes:
        prompt: tokens of the prompt, all read in the iteration that admits it.
        output: tokens to generate, at least 1.
        finish: why it ends: `length`, or `stop` where fewer tokens come than were asked for.
        admitted: start of that iteration; None before it.
        tokens: when each token was there.
    """

    number: int
    arrival: float
    prompt: int
    output: int
    finish: str = "length"
    admitted: float | None = None
    tokens: list[float] = field(default_factory=list)

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
        """Whether there is a job that is not done."""
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
