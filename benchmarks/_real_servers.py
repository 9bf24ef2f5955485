"""Small real servers on the loopback, for `load_servers.py`: `python _real_servers.py KIND PORT`.

fastapi     a route that calls a transformer encoder of torch, under uvicorn
http.server the standard library's threads, a calculation of some milliseconds
bentoml     the same encoder as a service: `bentoml serve _real_servers:Encoder`
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def encoder() -> Any:
    """A call that takes some milliseconds on one core."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 4).eval()
    tokens = torch.randn(1, 64, 128)

    def call() -> float:
        with torch.inference_mode():
            return float(model(tokens).sum())

    return call


def fastapi(port: int) -> None:
    """One worker; calls run in the thread pool of the framework, as of any `def` route."""
    import uvicorn
    from fastapi import FastAPI

    call, app = encoder(), FastAPI()

    @app.post("/predict")
    def predict() -> dict[str, float]:
        return {"sum": call()}

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


class Handler(BaseHTTPRequestHandler):
    """Answers with a number."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = str(sum(at * at % 7 for at in range(40_000))).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Nothing."""


def plain(port: int) -> None:
    """A thread a connection."""
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


try:
    import bentoml
except ImportError:
    pass
else:

    @bentoml.service(workers=1)
    class Encoder:
        """The encoder as a service."""

        def __init__(self) -> None:
            self.call = encoder()

        @bentoml.api
        def predict(self) -> float:
            return float(self.call())


if __name__ == "__main__":
    {"fastapi": fastapi, "http.server": plain}[sys.argv[1]](int(sys.argv[2]))
