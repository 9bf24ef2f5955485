"""One visit to a recipe's server: started, asked the same prompts, warmed up, loaded block by block, ended.

A server has the machine to itself, as it will have it later: two that are up at once would share memory that
one of them may need as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import structs

from laptime.kit.clock import SystemClock
from laptime.kit.errors import LaptimeError
from laptime.launch.sender_process import Senders
from laptime.launch.worker import CommandFailed
from laptime.loadgen.messages import Endpoint
from laptime.probes import machine
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.event import ignore
from laptime.store.live_run import LiveRun
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.server.live_server import LiveServer, free_port
from laptime.tuning.server.outputs import Output, outputs
from laptime.tuning.server.request import ServerRequest
from laptime.tuning.server.template import Value
from laptime.verbs.load.generator import Generator
from laptime.verbs.load.level_run import LevelRun
from laptime.verbs.load.levels import closed_level, open_level
from laptime.verbs.load.targets import sender_target

MOST_FAILED = 0.01
"""Share of the requests of a block that may fail."""
AGAIN = 2
"""Times that a block is repeated whose generator was at fault."""
OURS = frozenset({"late", "stalled", "busy_sender", "self_test"})
"""Checks of a level that fail by the generator's fault."""
STRIDE = 97
"""Requests of a block begin so many bodies after those of the block before: what a server remembers of a
prompt would else be what is measured."""


class Visit:
    """A server that is up and can be loaded; see `visiting`.

    Attributes:
        ready: seconds from its start until it answered.
    """

    def __init__(self, request: ServerRequest, server: LiveServer, senders: Senders, endpoint: Endpoint):
        self._request, self._server, self._senders, self._endpoint = request, server, senders, endpoint
        load = request.load(endpoint.url)
        self._generator = Generator(senders, None, load.output if endpoint.stream else 0)
        self.ready = server.seconds

    def outputs(self) -> list[Output]:
        """What it answers to the same prompts, one after another.

        Raises:
            TrialFailed: it does not answer one.
        """
        return outputs(self._endpoint)

    def block(self, number: int, seconds: float, began: float) -> Case:
        """A level of so many seconds; blocks of one number have the same arrivals and prompts.

        Args:
            began: second of the machine's clock from which times of the session count.

        Raises:
            TrialFailed: requests failed, or the server or the generator did.
        """
        case = self._level(number, seconds, began)
        for _ in range(AGAIN):
            if not generators_fault(case):
                break
            case = self._level(number, seconds, began)
        facts = case.details.load
        assert facts is not None
        total = facts.answered + facts.failed
        if facts.failed > MOST_FAILED * total or not facts.answered:
            kinds = ", ".join(f"{each.kind} {each.count}" for each in facts.errors) or "none was answered"
            said = self._server.died() or next((each.example for each in facts.errors), "")
            what = f"{facts.failed} of {total} requests failed ({kinds})"
            raise TrialFailed("crashed", f"{what}: {said}" if said else what)
        return case

    def _level(self, number: int, seconds: float, began: float) -> Case:
        request = self._request.load(self._endpoint.url, seed=number)
        name, axes = "server", {"block": number}
        if request.rates:
            case, facts, order = open_level(request, name, request.rates[0], dict(axes), seconds)
            order = structs.replace(order, index=[at + STRIDE * number for at in order.index])
        else:
            timed = structs.replace(request, duration=seconds)
            case, facts, order = closed_level(timed, name, request.concurrency[0], dict(axes))
            order = structs.replace(order, first=STRIDE * number)
        live = LiveRun("load", ignore)
        live.start(environment=machine.environment())
        try:
            self._generator.prepare(facts.rate or 0.0)
            facts = structs.replace(facts, alone=self._generator.alone)
            return LevelRun(live, began, case, facts).carry_out(self._senders, order)
        except CommandFailed as error:
            raise TrialFailed("crashed", f"{error.failure.what}: {error.failure.why}") from None


def generators_fault(case: Case) -> Check | None:
    """What the generator did wrong, so that the block says nothing of the server; None if nothing."""
    return next((each for each in case.checks if each.outcome == "fail" and each.name in OURS), None)


@contextmanager
def visiting(request: ServerRequest, values: dict[str, Value], folder: Path) -> Iterator[Visit]:
    """A visit to the server with these choices.

    Raises:
        TrialFailed: it does not start, or does not answer a first request.
    """
    port = free_port()
    variables, words = request.template.command(values, str(port))
    url = request.at(port)
    is_model = request.load(url).is_language_model
    probe = f"{url.partition('/v1')[0]}/v1/models" if is_model else url
    log = folder / f"server-{SystemClock.now():.6f}.log"
    with ExitStack() as stack:
        server = stack.enter_context(LiveServer(words, variables, probe, log, request.timeout))
        try:
            endpoint, _ = sender_target(request.load(url))
            assert isinstance(endpoint, Endpoint)
            senders = Senders(endpoint)
        except CommandFailed as error:
            raise TrialFailed("refused", f"{error.failure.what}: {error.failure.why}") from None
        except LaptimeError as error:
            raise TrialFailed("refused", f"{error.what}: {error.why}") from None
        stack.callback(senders.close)
        if fault := senders.facts.get("error"):
            why = server.died() or senders.facts.get("detail", "")
            raise TrialFailed("refused", f"it did not answer a first request: {fault} {why}".strip())
        yield Visit(request, server, senders, endpoint)
