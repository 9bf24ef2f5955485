"""The server's own numbers, in the names and the text format of vLLM's `/metrics`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from laptime.testing.llm_server.engine import Job
from laptime.testing.llm_server.script import Script

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
        """Values that were added."""
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
