"""A scripted server in a process of its own: started, asked, and ended with a block."""

import asyncio
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from laptime.process.program import Process

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(frozen=True)
class ServerProcess:
    origin: str  # `http://127.0.0.1:PORT`
    process: Process  # it; already ended if the script let it die

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self.origin + path, timeout=10) as reply:  # noqa: S310 - always http
            body: bytes = reply.read()
        return body


S = TypeVar("S", bound=msgspec.Struct)
P = TypeVar("P", bound=ServerProcess)


def arguments(words: Sequence[str], script: type[S]) -> tuple[int, S]:
    """Port and script of a server's command line: `PORT JSON`, or flags as servers have them.

    `--port 8000 --slots 4 --cost.base 0.02`: a field of the script each, a dot before those of its parts.
    Raises SystemExit: a word is neither, or a value is none of its field."""
    if words and not words[0].startswith("--"):
        return int(words[0]), msgspec.json.decode(words[1], type=script)
    fields: dict[str, Any] = {}
    known = ["--port", *(f"--{name.replace('_', '-')}" for name in script.__struct_fields__)]
    if len(words) % 2 or not all(name.partition(".")[0] in known for name in words[::2]):
        raise SystemExit(f"usage: PORT JSON, or flags with a value each: {' '.join(known)}")
    for name, value in zip(words[::2], words[1::2], strict=True):
        *parents, last = name.removeprefix("--").replace("-", "_").split(".")
        part = fields
        for parent in parents:
            part = part.setdefault(parent, {})
        part[last] = value
    try:
        return int(fields.pop("port", 0)), msgspec.convert(fields, script, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None


@contextmanager
def started(kind: type[P], module: str, script: msgspec.Struct, *, port: int) -> Iterator[P]:
    """`python -m MODULE PORT SCRIPT`, which prints its address and serves until the block ends. port: 0 takes
    a free one. Raises RuntimeError: it did not start; its own words are on stderr."""
    words = [sys.executable, "-m", module, str(port), msgspec.json.encode(script).decode()]
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = Process(words, stdout=subprocess.PIPE, env=environ)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode().strip()
        if not line:
            raise RuntimeError(f"the scripted server ended with {process.wait()} before it listened")
        yield kind(line, process)
    finally:
        process.end(first=signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()


async def serve(application: "web.Application", port: int, **options: Any) -> None:
    """Serve on 127.0.0.1 for ever; the address is printed. options: as for `aiohttp.web.AppRunner`."""
    from aiohttp import web

    runner = web.AppRunner(application, access_log=None, **options)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, shutdown_timeout=0).start()
    os.write(1, f"http://127.0.0.1:{runner.addresses[0][1]}\n".encode())
    await asyncio.Event().wait()
