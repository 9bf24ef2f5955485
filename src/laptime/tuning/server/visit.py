"""One visit to a recipe's server: started, waited for, asked the same prompts, loaded block by block, ended.

A server has the machine to itself, as it will have it later: two that are up at once would share memory that
one of them may need as a whole. It is ended with all that it has started."""

import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from laptime.kit.clock import SystemClock
from laptime.kit.errors import LaptimeError
from laptime.kit.units import show
from laptime.launch.sender import Senders
from laptime.launch.worker import CommandFailed
from laptime.loadgen.messages import Endpoint
from laptime.probes import machine
from laptime.process.program import Process, deferred_signals, ending, last_line, tail
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.event import ignore
from laptime.store.live_run import LiveRun
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.server.outputs import Output, outputs
from laptime.tuning.server.request import ServerRequest, Value
from laptime.verbs.load.level_run import LevelRun
from laptime.verbs.load.levels import closed_level, open_level
from laptime.verbs.load.senders import Generator, sender_target

LOOK = 0.05  # seconds between two looks at a server that starts; later ones are up to LONGEST_LOOK apart
LONGEST_LOOK = 0.5
GRACE = 10.0  # seconds that a server has to end by itself, before its whole group is killed
LOG = 32_000  # bytes of what it has printed in which the reason of its end is looked for
_RAISED = re.compile(r"\b[A-Z]\w*(?:Error|Exception): .*\S")
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class LiveServer:
    """Up from `with` on, gone after it.
    Raises TrialFailed: it does not start, ends before it is ready, or is not ready in time."""

    words: Sequence[str]  # the program and its arguments
    variables: Mapping[str, str]  # added to the environment
    probe: str  # address that answers once the server is ready
    log: Path  # for what it prints
    timeout: float  # seconds until it has to be ready
    seconds: float = 0.0  # from its start until it was ready
    _process: Process | None = None

    def __enter__(self) -> "LiveServer":
        if answers(self.probe):
            raise TrialFailed("refused", f"something else answers at {self.probe} already: use {{port}}")
        with self.log.open("wb") as output, deferred_signals() as release:
            try:
                self._process = Process(
                    list(self.words),
                    marked=True,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self.variables},
                )
                release()
                self._wait(self._process)
            except OSError as error:
                raise TrialFailed("refused", f"{self.words[0]}: {error.strerror or error}") from None
            except BaseException:
                self.end()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End it and all that it has started. Safe to call twice."""
        if self._process is not None:
            self._process.end(grace=GRACE, first=signal.SIGTERM)

    def say_death(self) -> str:
        """Say how it ended and its last words; "" while it lives."""
        assert self._process is not None
        status = self._process.poll()
        if status is None:
            return ""
        said = last_words(tail(self.log, LOG))
        return f"the server {ending(status)}" + (f": {said}" if said else "")

    def _wait(self, process: Process) -> None:
        look = LOOK
        while not answers(self.probe):
            if process.ends_within(look):
                raise TrialFailed("crashed", self.say_death())
            if process.seconds > self.timeout:
                said = last_words(tail(self.log, LOG))
                last = f"; its last words: {said}" if said else ""
                why = f"{self.probe} did not answer within {show(self.timeout, 's')}{last}"
                raise TrialFailed("hung", why)
            look = min(LONGEST_LOOK, 1.2 * look)
        if said := self.say_death():
            raise TrialFailed("crashed", f"{said}; something else answers at {self.probe}")
        self.seconds = process.seconds


def last_words(output: str) -> str:
    """The last line, with the first exception before it: engines that die end in one that only says so."""
    last = last_line(output)
    first = next((found.group() for line in output.splitlines() if (found := _RAISED.search(line))), "")
    return f"{last} (before it: {first})" if first and first not in last else last


def answers(address: str) -> bool:
    """Whether a server answers there, well or not; 5xx says that it is not ready yet."""
    try:
        with _opener.open(address, timeout=5) as reply:
            return bool(reply.status < 500)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code < 500
    except (OSError, ValueError):
        return False
    except Exception:  # http.client has exceptions of its own for what is no HTTP
        return False


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# Load on it


MOST_FAILED = 0.01  # share of the requests of a block that may fail
ASKING = 0.02  # share of the budget in which answers that are made at once are asked again
AGAIN = 2  # times that a block is repeated whose generator was at fault
OURS = frozenset({"late", "stalled", "busy_sender", "self_test"})
"""Checks of a level that fail by the generator's fault."""
STRIDE = 97
"""Requests of a block begin so many bodies after those of the block before: what a server remembers of a
prompt would else be what is measured."""


class Visit:
    """A server that is up and can be loaded; see `visiting`."""

    def __init__(self, request: ServerRequest, server: LiveServer, senders: Senders, endpoint: Endpoint):
        self._request, self._server, self._senders, self._endpoint = request, server, senders, endpoint
        load = request.load(endpoint.url)
        self._generator = Generator(senders, None, load.output if endpoint.stream else 0)
        self.ready = server.seconds  # from its start until it answered

    def outputs(self) -> list[Output]:
        """Return its answers to the same prompts, one after another and as many at once as the load has.
        Raises TrialFailed: it does not answer one."""
        return outputs(self._endpoint, self._request.concurrency, ASKING * self._request.budget)

    def block(self, number: int, seconds: float, began: float) -> Case:
        """A level of so many seconds; blocks of one number have the same arrivals and prompts.

        At a low rate a short block may have no arrivals at all: that says nothing of the server.

        began: second of the machine's clock from which times of the session count.
        Raises TrialFailed: requests failed, or the server or the generator did."""
        case = self._level(number, seconds, began)
        for _ in range(AGAIN):
            if not generators_fault(case):
                break
            case = self._level(number, seconds, began)
        facts = case.details.load
        assert facts is not None
        total = facts.answered + facts.failed
        if total and (facts.failed > MOST_FAILED * total or not facts.answered):
            kinds = ", ".join(f"{error.kind} {error.count}" for error in facts.errors) or "none was answered"
            said = self._server.say_death() or next((error.example for error in facts.errors), "")
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
    """Return a fault of the generator, due to which a block says nothing of the server; None without."""
    return next((check for check in case.checks if check.outcome == "fail" and check.name in OURS), None)


def has_answers(case: Case) -> bool:
    """Whether a block had any; none at a low rate says nothing of the server."""
    facts = case.details.load
    return facts is None or facts.answered > 0


@contextmanager
def visiting(request: ServerRequest, values: dict[str, Value], folder: Path) -> Iterator[Visit]:
    """A visit to the server with these choices.
    Raises TrialFailed: it does not start, or does not answer a first request."""
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
            why = server.say_death() or senders.facts.get("detail", "")
            raise TrialFailed("refused", f"it did not answer the first request: {fault} {why}".strip())
        yield Visit(request, server, senders, endpoint)
