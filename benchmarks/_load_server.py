"""A server that answers at once: what is slow is the client. `python _load_server.py CHUNKS`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop

EVENT = b'data: {"choices":[{"index":0,"text":" w","finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"text":" w","finish_reason":"length"}]}\n\n'


def answer(chunks: int) -> bytes:
    """A JSON answer, or a stream of so many chunks with usage."""
    if not chunks:
        return b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{"ok": true}'
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":%d}}\n\n' % chunks
    parts = [EVENT] * (chunks - 1) + [LAST, usage, b"data: [DONE]\n\n"]
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + body


class Server(asyncio.Protocol):
    """Answers whatever comes; a request arrives in one piece on loopback."""

    def __init__(self, said: bytes) -> None:
        self._said = said

    def connection_made(self, transport: Any) -> None:
        """Keep it."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """One request, one answer."""
        self._transport.write(self._said)


async def main() -> None:
    """Serve until killed."""
    said = answer(int(sys.argv[1]))
    server = await asyncio.get_running_loop().create_server(lambda: Server(said), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
