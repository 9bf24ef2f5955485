"""The scripted server itself: an aiohttp application that moves the engine by the clock.

`python -m laptime.testing.llm_server PORT SCRIPT` serves a script (JSON) and prints its address. Flags say
the same: `--port 8000 --slots 4`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
from aiohttp import web

from laptime.testing.llm_server.engine import Answer, Engine, Job, Script
from laptime.testing.llm_server.wire import DONE, BadRequest, Request, ServerMetrics, Writer, read_request
from laptime.testing.server_process import arguments, serve

_FAREWELL = {
    "error": b'data: {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}'
    b"\n\n",
    "garbage": b"data: {]\n\n",
}


class ScriptedApp:
    """Answers by a script and keeps what happened; its clock is the event loop's (`time.monotonic`)."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.engine = Engine(script.cost, script.slots)
        self.metrics = ServerMetrics(script)
        self.jobs: list[Job] = []
        self._requests = 0
        self._woken = asyncio.Event()
        self._arrived: dict[int, asyncio.Semaphore] = {}

    def application(self) -> web.Application:
        app = web.Application(client_max_size=1 << 26)
        app.add_routes([
            web.post("/v1/completions", self._generate),
            web.post("/v1/chat/completions", self._generate),
            web.get("/v1/models", self._models),
            web.get("/metrics", self._metrics),
            web.get("/health", self._health),
            web.get("/truth", self._truth),
        ])  # fmt: skip
        app.cleanup_ctx.append(self._engine_task)
        return app

    async def _engine_task(self, app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(self._iterate())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _iterate(self) -> None:
        """Follow the engine's own times: a late wake-up delays what is sent, and no more."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self.engine.busy:
                await asyncio.sleep(self.engine.begin() - clock())
                for job in self.engine.finish():
                    self.metrics.observe(job)
                    self._arrived[job.number].release()

    async def _generate(self, http: web.Request) -> web.StreamResponse:
        arrival = asyncio.get_running_loop().time()
        number, self._requests = self._requests, self._requests + 1
        answer = self.script.answers[number % len(self.script.answers)]
        chat = "chat" in http.path
        try:
            key = self.script.api_key
            if key and http.headers.get("authorization") != f"Bearer {key}":
                raise BadRequest(401, "Unauthorized", "Unauthorized")
            request = read_request(await http.json(), self.script, chat=chat)
        except BadRequest as error:
            return web.json_response(error.body(), status=error.status)
        except ValueError as error:
            return web.json_response(BadRequest(400, "BadRequestError", str(error)).body(), status=400)
        if answer.status != 200 or answer.body:
            kind = "text/html" if answer.body.startswith("<") else "application/json"
            return web.Response(
                status=answer.status, text=answer.body, content_type=kind, headers=answer.headers
            )
        output = request.output if answer.output is None else answer.output
        finish = "length" if output == request.output else "stop"
        job = Job(number, arrival, request.prompt, output, finish)
        return await self._answer(http, request, answer, job)

    async def _answer(
        self, http: web.Request, request: Request, answer: Answer, job: Job
    ) -> web.StreamResponse:
        """Let the engine serve a job and pass on what it gives."""
        self.jobs.append(job)
        self._arrived[job.number] = asyncio.Semaphore(0)
        if job.output:
            self.engine.submit(job)
            self._woken.set()
        writer = Writer(request, answer, job.number, self.script.model)
        try:
            if request.stream:
                return await self._stream(http, answer, job, writer)
            await self._wait(job, job.output)
            return web.json_response(writer.whole(job.output, job.finish))
        finally:
            if len(job.tokens) < job.output:
                self.engine.cancel(job)
                self.metrics.finished["abort"] += 1
            del self._arrived[job.number]

    async def _wait(self, job: Job, tokens: int) -> None:
        for _ in range(tokens):
            await self._arrived[job.number].acquire()

    async def _stream(
        self, http: web.Request, answer: Answer, job: Job, writer: Writer
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"content-type": "text/event-stream; charset=utf-8", **answer.headers}
        )
        await response.prepare(http)
        if writer.has_role_chunk:
            await response.write(writer.role())
        total = job.output if answer.end == "done" else min(answer.after, job.output)
        sent = 0
        while sent < total or (total == 0 and answer.end == "done"):
            tokens = min(answer.tokens_per_chunk, total - sent)
            await self._wait(job, tokens)
            sent += tokens
            await response.write(writer.chunk(tokens, job.finish if sent == job.output else None))
            if not tokens:
                break
        await self._end(http, answer, response, writer)
        return response

    async def _end(
        self, http: web.Request, answer: Answer, response: web.StreamResponse, writer: Writer
    ) -> None:
        match answer.end:
            case "done":
                await response.write(writer.end())
            case "die":
                os._exit(1)
            case "stall":
                await asyncio.sleep(3600)
            case "cut":
                if http.transport is not None:
                    http.transport.close()
            case "error" | "garbage" as kind:
                await response.write(_FAREWELL[kind] + DONE)

    async def _models(self, http: web.Request) -> web.Response:
        model = {
            "id": self.script.model,
            "object": "model",
            "owned_by": "laptime",
            "max_model_len": self.script.context,
        }
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, http: web.Request) -> web.Response:
        return web.Response()

    async def _metrics(self, http: web.Request) -> web.Response:
        if not self.script.metrics:
            raise web.HTTPNotFound
        text = self.metrics.text(running=len(self.engine.running), waiting=len(self.engine.waiting))
        return web.Response(text=text, headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _truth(self, http: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self.jobs), content_type="application/json")


if __name__ == "__main__":
    port, script = arguments(sys.argv[1:], Script)
    asyncio.run(serve(ScriptedApp(script).application(), port, handler_cancellation=True))
