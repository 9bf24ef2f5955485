"""What a target of `load` is to a sender: an address and what is sent, or a program that it loads."""

from __future__ import annotations

import base64
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
from msgspec import structs

from laptime.kit.errors import Unavailable
from laptime.loadgen.messages import Endpoint, Program
from laptime.records.plan import BenchRequest
from laptime.records.run import Subject
from laptime.verbs.bench.planning import plan
from laptime.verbs.load.request import LoadRequest, shown

if TYPE_CHECKING:
    from laptime.loadgen.server_metrics import MetricsPage


def sender_target(request: LoadRequest) -> tuple[Endpoint | Program, Subject]:
    """What senders get, and what the run says of it.

    Raises:
        UsageError: there is no such target.
    """
    if request.is_endpoint:
        _require("h11")
        endpoint = _endpoint(request)
        if request.is_language_model:
            endpoint = _language_model(request, endpoint)
        return endpoint, Subject(target=shown(request.target), source="address")
    planned = plan(BenchRequest(targets=[request.target], batch=[1]))
    return Program(planned.variants[0]), planned.subjects[0]


def metrics_page(request: LoadRequest, target: Endpoint | Program) -> MetricsPage | None:
    """Where the server of a language model counts itself; None of any other target."""
    if not (isinstance(target, Endpoint) and request.is_language_model):
        return None
    from laptime.loadgen.server_metrics import MetricsPage  # it needs h11

    model = msgspec.json.decode(target.bodies[0])["model"]
    return MetricsPage(target, model)


def _language_model(request: LoadRequest, endpoint: Endpoint) -> Endpoint:
    from laptime.loadgen.language_model import BODIES, Prompts, bodies, later, settled  # it needs h11

    base, _, path = endpoint.url.partition("/v1")
    kind = {"/completions": "completions", "/chat/completions": "chat"}.get(path.rstrip("/"), "")
    prompts = Prompts(
        kind=kind,
        model=request.model,
        prompt=request.prompt,
        output=request.output,
        shared=request.shared_prefix,
        seed=request.seed,
        tokenizer=str(request.tokenizer or ""),
        turns=request.turns,
    )
    json = [("content-type", "application/json")]
    asked = structs.replace(endpoint, headers=[*endpoint.headers, *json])
    asked, prompts = settled(f"{base}/v1", asked, prompts)
    return structs.replace(asked, bodies=bodies(prompts, BODIES), turns=prompts.turns, later=later(prompts))


def _require(library: str) -> None:
    if find_spec(library) is None:
        raise Unavailable(
            f"{library} is not installed",
            why="load on an address is sent over HTTP by it",
            next="pip install 'laptime[load]'",
        )


def _endpoint(request: LoadRequest) -> Endpoint:
    url = urlsplit(request.target)
    headers = list(request.headers)
    names = {name.lower() for name, _ in headers}
    if url.username is not None and "authorization" not in names:
        secret = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        headers.append(("authorization", f"Basic {base64.b64encode(secret).decode()}"))
    if request.bodies and "content-type" not in names:
        headers.append(("content-type", "application/json"))
    return Endpoint(
        url=urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2], fragment="")),
        method=request.method or ("POST" if request.bodies else "GET"),
        headers=headers,
        bodies=request.bodies,
        timeout=request.timeout,
        verify=request.verify,
    )
