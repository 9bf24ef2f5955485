"""The senders: their targets, an address and what is sent or a program that they load, and how many there
are."""

import base64
import math
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
import numpy as np
from msgspec import structs

from laptime.kit import redaction
from laptime.kit.errors import Unavailable
from laptime.kit.extras import install
from laptime.kit.system_files import cpu_quota
from laptime.launch.sender import Senders
from laptime.loadgen.checks import BUSIEST
from laptime.loadgen.messages import Endpoint, Program, SelfTest
from laptime.records.load import Alone
from laptime.records.plan import BenchRequest
from laptime.records.run import Subject
from laptime.verbs.bench.planning import plan
from laptime.verbs.bench.variants import usable
from laptime.verbs.load.request import LoadRequest

if TYPE_CHECKING:
    from laptime.loadgen.server_metrics import MetricsPage


def sender_target(request: LoadRequest) -> tuple[Endpoint | Program, Subject]:
    """Return the senders' target, and the run's record of it. Raises UsageError: there is no such target."""
    if request.is_endpoint:
        if find_spec("h11") is None:
            why = "laptime needs it to send requests over HTTP"
            raise Unavailable("h11 is not installed", why=why, next=install("load"))
        endpoint = _endpoint(request)
        if request.is_language_model:
            endpoint = _language_model(request, endpoint)
        return endpoint, Subject(target=redaction.address(request.target), source="address")
    planned = plan(BenchRequest(targets=[request.target], batch=[1]))
    return Program(planned.variants[0]), planned.subjects[0]


def metrics_page(request: LoadRequest, target: Endpoint | Program) -> "MetricsPage | None":
    """Return where the server of a language model counts itself; None of any other target."""
    if not (isinstance(target, Endpoint) and request.is_language_model):
        return None
    from laptime.loadgen.server_metrics import MetricsPage  # it needs h11

    return MetricsPage(target, msgspec.json.decode(target.bodies[0])["model"])


def _language_model(request: LoadRequest, endpoint: Endpoint) -> Endpoint:
    from laptime.loadgen.language_model import BODIES, Prompts, bodies, later, settle  # it needs h11

    base, _, path = endpoint.url.partition("/v1")
    prompts = Prompts(
        kind={"/completions": "completions", "/chat/completions": "chat"}.get(path.rstrip("/"), ""),
        model=request.model,
        prompt=request.prompt,
        output=request.output,
        shared=request.shared_prefix,
        seed=request.seed,
        tokenizer=str(request.tokenizer or ""),
        turns=request.turns,
    )
    asked = structs.replace(endpoint, headers=[*endpoint.headers, ("content-type", "application/json")])
    asked, prompts = settle(f"{base}/v1", asked, prompts)
    return structs.replace(asked, bodies=bodies(prompts, BODIES), turns=prompts.turns, later=later(prompts))


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


# How many senders: they measure themselves on loopback before they send to a server. As many as a rate needs
# are started, up to the CPUs of this machine, unless the request says how many.

SECONDS = 0.3  # of one self-test, at a rate that senders can keep
FEWEST, MOST = 100, 2000  # requests of one: fewer have no p99, more take too long for slow senders
CHUNKS = 10_000  # the most chunks of one
LEAST_CHUNKS = 8


class Generator:
    """Senders for one endpoint.

    Args:
        count: as many as the user wants; None: as many as are needed.
        chunks: of an answer's stream; 0: answers come in one piece.
    """

    def __init__(self, senders: Senders, count: int | None, chunks: int) -> None:
        self._senders, self._count, self._chunks = senders, count, chunks
        self.alone: Alone | None = None

    def prepare(self, rate: float) -> None:
        """Measure the senders if that was not done, and start as many as a rate needs.
        Raises CommandFailed: one of them failed."""
        if self.alone is None:
            self.alone = self._measure(rate)
        each = self.alone.capacity / self._senders.count
        needed = min(len(usable()), math.ceil(rate / each)) if each > 0 else 1
        if self._count is None and needed > self._senders.count:
            self._senders.grow(needed)
            self.alone = self._measure(rate)

    def _measure(self, rate: float) -> Alone:
        test = order(rate, self._chunks)
        made = self._senders.self_test(test)
        late = np.concatenate([np.asarray(each.late, dtype=float) for each in made])
        sent = [len(each.late) for each in made]
        # An answer of all its chunks costs more than one of those tried here, at most as many times more.
        longer = self._chunks / test.chunks if test.chunks else 1.0
        capacity = [
            count / (each.cpu * longer) * BUSIEST for each, count in zip(made, sent, strict=True) if count
        ]
        return Alone(
            rate=test.rate,
            late=round(float(np.quantile(late, 0.99)), 6) if len(late) else math.inf,
            cpu=round(max(each.cpu / each.wall for each in made), 4),
            capacity=round(sum(capacity), 1),
            quota=cpu_quota(),
            bound=len(usable()) < (os.cpu_count() or 1),
        )


def order(rate: float, chunks: int) -> SelfTest:
    """Return the self-test for so many requests per second: at least so many that their p99 is known.

    If that is more requests than asked for, their streams are shorter: chunks come as fast as asked."""
    tried = max(rate, FEWEST / SECONDS)
    requests = min(MOST, round(tried * SECONDS))
    per_second = max(LEAST_CHUNKS, round(rate * chunks / tried))
    return SelfTest(tried, requests, min(chunks, per_second, max(1, CHUNKS // requests)))
