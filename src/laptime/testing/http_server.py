"""A scripted HTTP server: a queue in front of so many slots, whose service times are known.

    script = Script(slots=1, service=0.27)
    with serving(script) as server:
        ...                      # load server.url ("http://127.0.0.1:PORT/predict")
        jobs = server.truth()    # each request in order of arrival: arrival, begin, end

Times are those of `time.monotonic` (on Linux also `time.perf_counter`). A request ends when its service
ends by arithmetic, `max(arrival, a free slot) + service`: one late answer does not make the next one late.
Faults are data: the n-th request gets the n-th of `Script.answers`, and round again. Needs aiohttp.

`python -m laptime.testing.http_server PORT SCRIPT` serves a script (JSON) and prints its address. Flags say
the same: `--port 8000 --slots 4`."""

import asyncio
import heapq
import os
import random
import sys
import time
from contextlib import AbstractContextManager
from typing import Literal

import msgspec
from aiohttp import web
from msgspec import Struct

from laptime.testing import server_process

NAME = "laptime.testing.http_server"


class Answer(Struct, frozen=True, kw_only=True):
    """How one request is answered."""

    status: int = 200
    body: str = '{"ok": true}'  # sent in `chunks` pieces
    content_type: str = "application/json"
    chunks: int = 0
    # whole; cut (the connection breaks in the middle); never (no answer comes); die (the server ends)
    end: Literal["whole", "cut", "never", "die"] = "whole"


class Script(Struct, frozen=True, kw_only=True):
    slots: int = 1  # requests served at once; 0: any number
    service: float = 0.0  # seconds of each
    law: Literal["constant", "exponential"] = "constant"  # constant, or exponential with this mean
    seed: int = 0
    answers: tuple[Answer, ...] = (Answer(),)  # of the requests, in turn


class Job(Struct, frozen=True, kw_only=True):
    """One request: when it arrived, when its service began and ended."""

    arrival: float
    begin: float
    end: float


class ServerProcess(server_process.ServerProcess):
    @property
    def url(self) -> str:
        return f"{self.origin}/predict"

    def truth(self) -> list[Job]:
        """The requests that arrived, in order."""
        return msgspec.json.decode(self.get("/truth"), type=list[Job])


def serving(script: Script, *, port: int = 0) -> AbstractContextManager[ServerProcess]:
    """A server in a process of its own, ended with the block; see `server_process.started`."""
    return server_process.started(ServerProcess, NAME, script, port=port)


class ScriptedApp:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._free = [0.0] * script.slots
        self._jobs: list[Job] = []
        self._random = random.Random(script.seed)  # noqa: S311 - service times, no secret

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/truth", self._truth)
        app.router.add_route("*", "/{path:.*}", self._serve)
        return app

    async def _truth(self, request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self._jobs), content_type="application/json")

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        arrival = time.monotonic()
        script = self._script
        exponential = script.law == "exponential" and script.service
        seconds = self._random.expovariate(1 / script.service) if exponential else script.service
        begin = max(arrival, heapq.heappop(self._free)) if self._free else arrival
        if script.slots:
            heapq.heappush(self._free, begin + seconds)
        job = Job(arrival=arrival, begin=begin, end=begin + seconds)
        self._jobs.append(job)
        answer = self._script.answers[(len(self._jobs) - 1) % len(self._script.answers)]
        await request.read()
        if (left := job.end - time.monotonic()) > 0:
            await asyncio.sleep(left)
        if answer.end == "die":
            os._exit(1)
        if answer.end == "never":
            await asyncio.Event().wait()
        if not answer.chunks and answer.end == "whole":
            return web.Response(status=answer.status, text=answer.body, content_type=answer.content_type)
        return await self._stream(request, answer)

    async def _stream(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        reply = web.StreamResponse(status=answer.status, headers={"content-type": answer.content_type})
        await reply.prepare(request)
        for _ in range(max(1, answer.chunks)):
            await reply.write(answer.body.encode())
        if answer.end == "cut" and request.transport is not None:
            request.transport.abort()
        return reply


if __name__ == "__main__":
    port, script = server_process.arguments(sys.argv[1:], Script)
    asyncio.run(server_process.serve(ScriptedApp(script).application(), port))
