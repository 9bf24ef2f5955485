"""A scripted server in a process of its own: started, asked, and ended with a block."""

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


@dataclass(frozen=True)
class ServerProcess:
    """A running scripted server.

    Attributes:
        origin: `http://127.0.0.1:PORT`.
        process: it; already ended where the script let it die.
    """

    origin: str
    process: Process

    def get(self, path: str) -> bytes:
        """What it answers there."""
        with urllib.request.urlopen(self.origin + path, timeout=10) as reply:  # noqa: S310 - always http
            body: bytes = reply.read()
        return body


@contextmanager
def started(module: str, script: msgspec.Struct, *, port: int) -> Iterator[ServerProcess]:
    """`python -m MODULE PORT SCRIPT`, which prints its address and serves until the block ends.

    Args:
        port: 0 takes a free one.

    Raises:
        RuntimeError: it did not start; its own words are on stderr.
    """
    words = [sys.executable, "-m", module, str(port), msgspec.json.encode(script).decode()]
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
