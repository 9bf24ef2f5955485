"""What does `laptime load` cost: wall and CPU of a test of 10 s, requests and chunks of one sender core?

aiohttp's client stands beside it, on the same event loop and against the same server. Asked for: 15 s of wall
and 4 s of CPU; 2,000 requests/s and 30,000 chunks/s a core.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _harness import Figures, run, table
from laptime.kit.clock import SystemClock
from laptime.launch.sender import Senders
from laptime.loadgen.messages import Answers, Endpoint, Level, LevelDone
from laptime.testing import http_server

CHUNKS, USERS, SECONDS = 100, 32, 5.0
LIMITS = {"wall": 15.0, "cpu": 4.0, "requests": 2000.0, "chunks": 30000.0}


def ten_seconds() -> tuple[float, float]:
    """Wall and CPU seconds of a whole command of 10 s, its server's not among them."""
    with http_server.serving(http_server.Script(slots=4, service=0.02)) as server:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        words = ["load", server.url, "--rate", "50", "--duration", "10s", "--no-save", "-q"]
        subprocess.run([sys.executable, "-m", "laptime", *words], stdout=subprocess.DEVNULL)
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def instant_server(chunks: int) -> Iterator[str]:
    """The address of a server that answers at once."""
    words = [sys.executable, str(Path(__file__).with_name("_load_server.py")), str(chunks)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().decode().strip() + "/v1/completions"
    finally:
        server.kill()
        server.wait()


def one_sender(chunks: int) -> tuple[float, float]:
    """Whole answers per second, and the share of a CPU that the sender used."""
    with instant_server(chunks) as url:
        senders = Senders(Endpoint(url, "POST", [], ["{}"], "completions" if chunks else ""))
        answered, cpu, wall = 0, 0.0, 1.0
        try:
            for message in senders.level(Level(SystemClock.now() + 0.1, SECONDS, users=USERS)):
                if isinstance(message, Answers):
                    answered += sum(not answer.error for answer in message.answers)
                elif isinstance(message, LevelDone):
                    cpu, wall = message.cpu, message.wall
        finally:
            senders.close()
    return answered / SECONDS, cpu / wall


def aiohttp_client(chunks: int) -> tuple[float, float]:
    """The same of aiohttp's client on uvloop, which reads each answer and keeps when its parts came."""
    import aiohttp
    import uvloop

    async def work(url: str) -> int:
        end, done = time.perf_counter() + SECONDS, 0

        async def user(session: aiohttp.ClientSession) -> None:
            nonlocal done
            while time.perf_counter() < end:
                async with session.post(url, data=b"{}") as reply:
                    parts = [(time.perf_counter(), part) async for part, _ in reply.content.iter_chunks()]
                done += bool(parts)

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*(user(session) for _ in range(USERS)))
        return done

    with instant_server(chunks) as url:
        cpu, wall = time.process_time(), time.perf_counter()
        done = uvloop.run(work(url))
        return done / SECONDS, (time.process_time() - cpu) / (time.perf_counter() - wall)


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when a limit is passed."""
    wall, cpu = ten_seconds()
    rows = [["a test of 10 s at 50 requests/s", f"{wall:.1f} s of wall, {cpu:.1f} s of CPU"]]
    figures = {"wall": wall, "cpu": cpu}
    for name, chunks in (("requests", 0), ("chunks", CHUNKS)):
        for client, measured in (("a sender (h11)", one_sender), ("aiohttp's client", aiohttp_client)):
            rate, share = measured(chunks)
            rate *= chunks or 1
            rows.append(
                [f"{name}/s, {client}", f"{rate:,.0f} with {share:.0%} of a CPU: {rate / share:,.0f} a core"]
            )
            figures.setdefault(name, rate / share)
    table(["what", "measured"], rows)
    data["figures"] = figures
    late = any(figures[name] > LIMITS[name] for name in ("wall", "cpu"))
    return int(late or any(figures[name] < LIMITS[name] for name in ("requests", "chunks")))


if __name__ == "__main__":
    run(main, "`laptime load`")
