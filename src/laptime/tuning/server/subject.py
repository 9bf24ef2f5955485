"""`tune server`: from the command with choices to the command line that is handed back, in one session."""

import hashlib
import math
from contextlib import suppress
from statistics import fmean, median
from typing import Any

from msgspec import structs

from laptime.experiment.pairs import Pair, Visited, one_after_the_other
from laptime.kit import redaction, typed
from laptime.kit.errors import LaptimeError, UsageError, UserCodeError
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.probes import machine
from laptime.records.case import Case
from laptime.records.check import Check, Finding
from laptime.records.environment import Environment
from laptime.records.event import Listener, ignore
from laptime.records.quantity import UNDECIDED
from laptime.records.run import Run
from laptime.records.run import Subject as RunSubject
from laptime.records.series import read_metrics
from laptime.records.tuning import Diagnosis, Gate, TunedServer
from laptime.tuning.gates.invariants import word
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import recipe_of
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.server.evaluator import GENERATOR, ServerEvaluator, strip, values_of
from laptime.tuning.server.outputs import TITLES, limits, rate
from laptime.tuning.server.request import ServerRequest
from laptime.tuning.session.final_gain import FinalCost
from laptime.tuning.session.journal import SessionJournal
from laptime.tuning.session.session import run_session, run_verification
from laptime.tuning.session.subject import Record, Subject
from laptime.tuning.session.verify import VerifyRequest, gain_since_then

BLOCKS = 3  # blocks of load of each start of a side whose gain is measured
HAND_BACK = 1.0  # seconds that the end of a session takes, about
(BLOCK,) = read_metrics("""
tune/block s lower figure of a block
    Of a block of load: the mean of a latency, or the server's seconds for an answer or a token.
""")
_ASKED = ("goal", "rate", "concurrency", "prompt", "output", "slo", "differs")
"""Fields of a request that decide what is measured."""


def tune_server(request: ServerRequest, emit: Listener = ignore) -> Run:
    """Find better flags for a server, and say by how much. Return the run; its `tuning` has the ladder, the
    gain, the gate and, in `server`, the command line. emit: gets every event: decisions, progress.
    Raises UsageError: the command, the address or the load is impossible, or there is no session to resume.
    UserCodeError: the server does not run as it is."""
    request.check()
    asked = {name: getattr(request, name) for name in (*_ASKED, "certify")}
    terms = ["server", request.command, request.url, request.bodies, request.headers, asked]
    save = request.save and not request.dry_run
    journal = SessionJournal(terms, "this command and this load", resume=request.resume, save=save)
    return run_session(journal, lambda folder: ServerSubject(ServerEvaluator(request, folder)), emit)


def verify_server(run: Run, request: VerifyRequest, emit: Listener = ignore) -> Run:
    """Load the server as it was and with the flags that a stored session has kept, and compare their answers.
    run: of the session. request: what is asked now; it has the headers, which are not stored. Returns the
    run, of verb `verify`; its `tuning` has both sides, the gain and the gate as they are now.
    Raises UsageError: the session has kept nothing, or what it has sent is no longer known. UserCodeError:
    the server does not run as it was."""
    of_server, tuning = _request_of(run, request), run.tuning
    assert tuning is not None
    of_server.check()
    return run_verification(
        lambda folder: ServerSubject(ServerEvaluator(of_server, folder)),
        recipe_of(tuning),
        lambda record: _since_then(run, record),
        emit,
    )


class ServerSubject(Subject):
    """The flags of a server."""

    PLAN = (*_ASKED, "budget", "certify", "timeout")
    METRIC = BLOCK
    PROBE = "client"
    apart = "a server is bound to its port"
    UNIT = "block"
    DEPEND = True
    BEGINS = "starting the server as it is"
    AFRESH = "measuring the gain after fresh starts"

    def __init__(self, evaluator: ServerEvaluator) -> None:
        super().__init__(evaluator.request)
        self.evaluator: ServerEvaluator = evaluator
        self._cases: list[Case] = []

    def run_fields(self) -> dict[str, Any]:
        """Return the fields of the run; requests and their headers are not stored."""
        subject = RunSubject(target=self.evaluator.template.line({}), source="server")
        return {"subjects": [subject]}

    def tuning_fields(self) -> dict[str, Any]:
        request, template = self.request, self.evaluator.template
        load = f"{request.rate:g} requests/s" if request.rate else count(request.concurrency, "user")
        if request.load(request.at(1)).is_language_model:
            load = f"{load}, {request.prompt} tokens in and {request.output} out"
        return {
            "server": TunedServer(
                before=template.line({}),
                choices={choice.name: list(choice.values) for choice in template.choices},
                template=request.command,
                url=redaction.address(request.url),
                load=load,
                body=request.body,
                sent=hash_sent(request),
                headers=[name for name, _ in request.headers],
                figure=TITLES[request.figure],
                slo=request.slo,
            )
        }

    def diagnosis(self, recipe: Recipe, profile: LoopProfile) -> Diagnosis:
        figure = self.request.figure
        text = f"{show(1 / profile.step, '1/s').removesuffix('/s')} {self.evaluator.unit}/s"
        if figure != "throughput":
            text = f"{TITLES[figure]} {show(profile.step, 's')}"
        return structs.replace(super().diagnosis(recipe, profile), sentence=text)

    def refusal(self, failed: TrialFailed) -> LaptimeError:
        by_hand = f"{self.evaluator.template.line({})}   by hand"
        return UserCodeError(
            "the server does not run as it is", why=f"{failed.kind}: {failed.why}", next=by_hand
        )

    def cost(self, recipe: Recipe, step: float) -> FinalCost:
        evaluator = self.evaluator
        gate = 0.0 if evaluator.is_asked(recipe) else evaluator.pair_cost(0) / 2
        return FinalCost(gate=gate, pair=evaluator.pair_cost(BLOCKS), hand_back=HAND_BACK)

    def gate(self, recipe: Recipe) -> Gate:
        return self.evaluator.sameness(recipe)

    def pair(self, recipe: Recipe, number: int, until: float) -> Pair:
        numbers, sides = self.evaluator.numbers(BLOCKS), (Recipe(), strip(recipe))
        return Pair(*one_after_the_other(number, lambda at: self._visit(sides[at], numbers)))

    def _visit(self, recipe: Recipe, numbers: list[int]) -> Visited:
        evaluator = self.evaluator
        known = evaluator.cases[recipe]
        before = len(known)
        with evaluator.accounting.spent_on("measure"):
            figures = [each for each in evaluator.measure(recipe, numbers) if math.isfinite(each)]
        if not figures:
            raise TrialFailed("refused", GENERATOR)
        if len(recipe):
            self._cases += known[before:]
        return Visited(fmean(figures), figures, fmean(rate(case) for case in known[before:]))

    def is_decided(self) -> bool:
        return word(limits(self.request.slo, self._cases)) is not UNDECIDED

    def measure(self, record: Record, recipe: Recipe) -> None:
        record.set_part("server", limits=limits(self.request.slo, self._cases))

    def finish(self, record: Record, search: SearchResult) -> None:
        if not self._cases:
            with suppress(TrialFailed):
                record.set_part("server", limits=self.evaluator.limit_checks(search.recipe))

    def hand_back_so_far(self, record: Record, search: SearchResult) -> None:
        if self.evaluator.is_asked(search.recipe):
            record.set(gate=self.evaluator.sameness(search.recipe))

    def record(self, record: Record) -> None:
        evaluator = self.evaluator
        recipe = strip(recipe_of(record.tuning))
        fields: dict[str, Any] = {"unit": evaluator.unit, "block": evaluator.block}
        if self.request.figure == "throughput" and evaluator.unit == "tokens":
            fields["figure"] = "output tokens per second"
        if record.search is not None or len(recipe):
            fields["command"] = evaluator.template.line(values_of(recipe))
            sides = {"baseline": Recipe(), **({"final": recipe} if len(recipe) else {})}
            starts = {name: evaluator.ready[side] for name, side in sides.items()}
            fields["ready"] = {name: median(seconds) for name, seconds in starts.items() if seconds}
        if record.tuning.gate.word != "none" and evaluator.answers[recipe]:
            fields["compared"] = len(evaluator.answers[recipe][0])
        record.set_part("server", **fields)

    def environment(self) -> Environment:
        return machine.environment()

    def axes(self) -> dict[str, Any]:
        return {}

    def checks(self) -> list[Check]:
        """A warning if blocks say nothing of the server, with what to do."""
        lost = self.evaluator.unusable
        if not lost:
            return []
        usable = sum(map(len, self.evaluator.cases.values()))
        blocks = f"{len(lost)} of {len(lost) + usable} blocks"
        sentence = f"{blocks} say nothing of the server: {lost[-1].sentence}"
        return [Check(name="generator", outcome="warn", sentence=sentence, next=lost[-1].next)]


def hash_sent(request: ServerRequest) -> str:
    """A hash of the bodies that are sent; "" for prompts that laptime makes."""
    return hashlib.sha256("\n".join(request.bodies).encode()).hexdigest() if request.bodies else ""


# Verifying


def _request_of(run: Run, request: VerifyRequest) -> ServerRequest:
    """The request of a stored session, as far as it is asked again.
    Raises UsageError: it has kept nothing, or what it has sent is no longer known."""
    tuning, server = run.tuning, run.tuning.server if run.tuning else None
    if tuning is None or server is None or not tuning.recipe:
        raise UsageError(
            f"run {run.id} has nothing to verify",
            why="it kept no flag of a server" if server else "it left no recipe",
            next="laptime list   names the sessions that kept something",
        )
    if not server.template:
        raise UsageError(
            f"run {run.id} cannot be verified",
            why="an older laptime stored it, without the command and its choices",
            next="tune the server once more",
        )
    missing = [name for name in server.headers if name not in [given for given, _ in request.headers]]
    if missing:
        raise UsageError(
            f"its requests had the header {missing[0]}",
            why="values of headers are not stored",
            next=f"laptime verify {run.id} --header '{missing[0]}: VALUE'",
        )
    asked: dict[str, Any] = {name: run.plan[name].value for name in _ASKED}
    differs = asked.pop("differs")
    of_server = ServerRequest(
        command=server.template,
        url=server.url,
        bodies=typed.bodies(server.body) if server.body else [],
        body=server.body,
        headers=request.headers,
        **request.of_session,
        allow=["precision"] if differs else [],
        **asked,
    )
    if server.sent != hash_sent(of_server):
        why = f"{server.body} was edited" if server.body else "it did not come from a file"
        raise UsageError(
            f"the requests of run {run.id} are no longer known", why=why, next="tune the server once more"
        )
    return of_server


def _since_then(run: Run, record: Record) -> Finding:
    then, here = run.environment, record.live.run().environment
    names = ("cpu", "usable_cpus", "machine")
    changed = [name for name in names if getattr(then, name) != getattr(here, name)]
    assert run.tuning is not None
    return gain_since_then(run.tuning.speedup, record.tuning.speedup, changed)
