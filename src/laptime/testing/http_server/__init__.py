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

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from laptime.launch.process import Process
from laptime.testing.http_server.script import Answer as Answer
from laptime.testing.http_server.script import Job as Job
from laptime.testing.http_server.script import Script as Script


@dataclass(frozen=True)
class ServerProcess:
    """A running scripted server. `origin`: `http://127.0.0.1:PORT`."""

    origin: str
    process: Process

    @property
    def url(self) -> str:
        """Where requests go."""
        return f"{self.origin}/predict"

    def truth(self) -> list[Job]:
        """The requests that arrived, in order."""
        with urllib.request.urlopen(self.origin + "/truth", timeout=10) as reply:  # noqa: S310 - always http
            return msgspec.json.decode(reply.read(), type=list[Job])


@contextmanager
def serving(script: Script, *, port: int = 0) -> Iterator[ServerProcess]:
    """A server in a process of its own, ended with the block.

    Raises:
        RuntimeError: it did not start; its own words are on stderr.
    """
    words = [sys.executable, "-m", __name__, str(port), msgspec.json.encode(script).decode()]
    process = Process(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode().strip()
        if not line:
            raise RuntimeError(f"the scripted server ended with {process.wait()} before it listened")
        yield ServerProcess(line, process)
    finally:
        process.end(first=signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()
