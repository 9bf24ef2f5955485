"""Counts of a language model's server: `/metrics`, in Prometheus' text format and names of vLLM."""

import asyncio
import re
import time
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from laptime.kit.clock import SystemClock
from laptime.loadgen.connection import Broken
from laptime.loadgen.endpoint import fault, page
from laptime.loadgen.messages import Endpoint
from laptime.records.load import ServerCounts

_NAMES = {
    "requests": "vllm:request_success_total",
    "prompt": "vllm:prompt_tokens_total",
    "output": "vllm:generation_tokens_total",
    "first_tokens": "vllm:time_to_first_token_seconds_count",
    "ttft_sum": "vllm:time_to_first_token_seconds_sum",
}
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+([^\s#]+)", re.MULTILINE)
_MODEL = re.compile(r'(?:^|,)model_name="((?:[^"\\]|\\.)*)"')
_PATIENCE, _PAUSE = 1.0, 0.05
_TIMEOUT = 5.0


class Totals(Struct, frozen=True):
    """Counters since the server began; `ttft_sum` is in seconds."""

    requests: float
    prompt: float
    output: float
    first_tokens: float
    ttft_sum: float

    def since(self, before: "Totals") -> ServerCounts:
        """Return the counts since `before`."""
        firsts = round(self.first_tokens - before.first_tokens)
        return ServerCounts(
            requests=round(self.requests - before.requests),
            prompt=round(self.prompt - before.prompt),
            output=round(self.output - before.output),
            first_tokens=firsts,
            ttft=(self.ttft_sum - before.ttft_sum) / firsts if firsts > 0 else None,
        )


def totals(text: str, model: str = "") -> Totals | None:
    """The counters of a page, of all engines of a model together; None if one of them is missing. model:
    samples that name another one do not count; "" takes all."""
    sums: dict[str, float] = {}
    for name, labels, value in _SAMPLE.findall(text):
        named = _MODEL.search(labels)
        if not (model and named and named[1] != model):
            try:
                number = float(value)
            except ValueError:
                number = 0.0
            sums[name] = sums.get(name, 0.0) + number
    found = {field: sums[name] for field, name in _NAMES.items() if name in sums}
    return Totals(**found) if len(found) == len(_NAMES) else None


class MetricsPage:
    """The `/metrics` of the server behind an endpoint. model: whose counters count; "" for any."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        url = urlsplit(endpoint.url)
        self._url: SplitResult = url._replace(path="/metrics", query="", fragment="")
        self._endpoint, self._model = endpoint, model

    def read(self) -> Totals | None:
        """Its counters now; None if it does not answer, or in other names than vLLM's."""
        try:
            reply = asyncio.run(page(self._endpoint, self._url, _TIMEOUT))
        except Broken:
            return None
        return None if fault(reply)[0] else totals(reply.body.decode(errors="replace"), self._model)

    def settle(self, before: Totals, requests: int) -> ServerCounts | None:
        """Return the counts since `before` after so many requests: some servers count after they answer."""
        end = SystemClock.now() + _PATIENCE
        while (now := self.read()) is not None:
            counts = now.since(before)
            if counts.requests >= requests or SystemClock.now() > end:
                return counts
            time.sleep(_PAUSE)
        return None
