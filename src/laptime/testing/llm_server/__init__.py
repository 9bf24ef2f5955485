"""A scripted LLM server, whose iterations take seconds by a formula.

An iteration lasts `base + prefill_token x tokens of new prompts + running x requests`.

It speaks OpenAI's API as vLLM does (`/v1/completions`, `/v1/chat/completions`, with and without a stream,
`/v1/models`, `/metrics`), on 127.0.0.1, in a process of its own. What every latency must be is arithmetic:

    script = Script(cost=Cost(base=0.010, prefill_token=0.0001, running=0.001), slots=4)
    with serving(script) as server:
        ...                                  # load server.url ("http://127.0.0.1:PORT/v1", model "scripted")
        jobs = server.truth()                # each request in order of arrival: arrival, admitted, tokens
    jobs[0].ttft, jobs[0].itl, jobs[0].tpot, tokens_per_second(jobs)

Each word of a prompt is a token. A request of P words alone has TTFT `base + prefill_token x P + running`,
then gaps of `base + running`. Times are those of `time.monotonic` (on Linux also `time.perf_counter`), so a
client on the same machine can lay its own beside them; what was sent may leave up to a millisecond after its
time in `truth`, never before. In virtual time there is no server: `play(script.cost, script.slots, jobs)`
gives the same times for any arrivals at once.

Every fault is data: the n-th request gets the n-th of `Script.answers`, and round again.

    Script(answers=(Answer(),) * 9 + (Answer(status=429, headers={"retry-after": "1"}),))   # every tenth
    Script(answers=(Answer(end="cut", after=3),))                       # streams break after three tokens
    Script(answers=(Answer(usage_error=5),), metrics_tokens_error=-7)   # usage and counters lie

Needs aiohttp."""

from __future__ import annotations

from contextlib import AbstractContextManager

import msgspec

from laptime.testing import server_process
from laptime.testing.llm_server.engine import Answer as Answer
from laptime.testing.llm_server.engine import Cost as Cost
from laptime.testing.llm_server.engine import Engine as Engine
from laptime.testing.llm_server.engine import Job as Job
from laptime.testing.llm_server.engine import Script as Script
from laptime.testing.llm_server.engine import play as play
from laptime.testing.llm_server.engine import tokens_per_second as tokens_per_second


class ServerProcess(server_process.ServerProcess):
    @property
    def url(self) -> str:
        """The base URL for an OpenAI client."""
        return f"{self.origin}/v1"

    def truth(self) -> list[Job]:
        """The requests that reached the engine, in order of arrival."""
        return msgspec.json.decode(self.get("/truth"), type=list[Job])

    def metrics(self) -> str:
        return self.get("/metrics").decode()


def serving(script: Script, *, port: int = 0) -> AbstractContextManager[ServerProcess]:
    """A server in a process of its own, ended with the block; see `server_process.started`."""
    return server_process.started(ServerProcess, __name__, script, port=port)
