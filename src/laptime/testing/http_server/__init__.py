"""A scripted HTTP server: a queue in front of so many slots, whose service times are known.

    script = Script(slots=1, service=0.27)
    with serving(script) as server:
        ...                      # load server.url ("http://127.0.0.1:PORT/predict")
        jobs = server.truth()    # each request in order of arrival: arrival, begin, end

Times are those of `time.monotonic` (on Linux also `time.perf_counter`). A request ends when its service
ends by arithmetic, `max(arrival, a free slot) + service`: one late answer does not make the next one late.
Faults are data: the n-th request gets the n-th of `Script.answers`, and round again. Needs aiohttp.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from laptime.testing import server_process
from laptime.testing.http_server.script import Answer as Answer
from laptime.testing.http_server.script import Job as Job
from laptime.testing.http_server.script import Script as Script


class ServerProcess(server_process.ServerProcess):
    """A running scripted HTTP server."""

    @property
    def url(self) -> str:
        """Where requests go."""
        return f"{self.origin}/predict"

    def truth(self) -> list[Job]:
        """The requests that arrived, in order."""
        return msgspec.json.decode(self.get("/truth"), type=list[Job])


@contextmanager
def serving(script: Script, *, port: int = 0) -> Iterator[ServerProcess]:
    """A server in a process of its own, ended with the block; see `server_process.started`."""
    with server_process.started(__name__, script, port=port) as server:
        yield ServerProcess(server.origin, server.process)
