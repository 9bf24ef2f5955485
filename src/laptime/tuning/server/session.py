"""`tune --server`: from the command with choices to the command line that is handed back.

request ── server as it is, twice ── candidates ── ladder (race, gate, keep or drop) ── leave one out
                                                                                            │
        Run <── command line, gain <── as it is and tuned after fresh starts, in turns <────┘
"""

from __future__ import annotations

from contextlib import suppress
from statistics import median
from typing import Any, Literal

from msgspec import structs

from laptime.analysis.tuned import DRY
from laptime.kit.errors import UserCodeError
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.case import Axis, Case, case_key
from laptime.records.check import Check
from laptime.records.event import (
    CaseChanged,
    ChecksMade,
    Diagnosed,
    Listener,
    RungDecided,
    TuningChanged,
    ignore,
)
from laptime.records.metric import Metric
from laptime.records.run import Run, Subject
from laptime.records.series import Series
from laptime.records.tuning import Diagnosis, Gate, Measured, TunedServer, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.inference.model_record import diagnosis
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.search import ladder
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchInterrupted, SearchResult
from laptime.tuning.search.settings import SearchSettings
from laptime.tuning.server.confirmation import BLOCKS, FEWEST, confirmed
from laptime.tuning.server.evaluator import ServerEvaluator, built, values_of
from laptime.tuning.server.figure import TITLES
from laptime.tuning.server.request import ServerRequest
from laptime.tuning.session import run_events, tuning_record
from laptime.tuning.session.work_folder import work_folder
from laptime.verbs.load.request import shown, typed_command

LEAST_RESERVE, MOST_RESERVE = 0.2, 0.6
"""Share of the budget for measuring afresh: what the fewest pairs of starts take."""
_SETTINGS = (
    "goal", "rate", "concurrency", "prompt", "output", "slo", "budget", "certify", "timeout", "differs",
)  # fmt: skip
BLOCK = Metric(
    tag="tune/block",
    unit="s",
    title="figure of a block",
    better="lower",
    meaning="What the goal looks at, in one block of load: the mean of a latency, or the seconds of the "
    "server's time that an answer or an output token takes.",
)


def tune_server(request: ServerRequest, emit: Listener = ignore) -> Run:
    """Find better flags for a server, and say by how much.

    Args:
        emit: gets every event: decisions, progress.

    Returns:
        The run; its `tuning` has the ladder, the gain, the gate and, in `server`, the command line.

    Raises:
        UsageError: the command, the address or the load is impossible. UserCodeError: the server does not run
            as it is.
    """
    request.check()
    live = LiveRun("tune", emit)
    with work_folder("tune-server") as folder:
        evaluator = ServerEvaluator(request, folder)
        _start(live, request, evaluator)
        return _Session(request, evaluator, live).run()


def _empty(request: ServerRequest, evaluator: ServerEvaluator) -> Tuning:
    template = evaluator.template
    return Tuning(
        goal=request.goal,
        mode="certify" if request.certify else "fast",
        budget=request.budget,
        ended="interrupted",
        server=TunedServer(
            before=template.line({}),
            choices={choice.name: list(choice.values) for choice in template.choices},
            url=shown(request.url),
            load=_load(request),
            figure=TITLES[request.figure],
            slo=request.slo,
        ),
    )


def _load(request: ServerRequest) -> str:
    load = request.load(request.at(1))
    text = f"{request.rate:g} requests/s" if request.rate else count(request.concurrency, "user")
    return f"{text}, {request.prompt} tokens in and {request.output} out" if load.is_language_model else text


class _Session:
    """After Ctrl-C at any moment, what is known so far is the result."""

    def __init__(self, request: ServerRequest, evaluator: ServerEvaluator, live: LiveRun) -> None:
        self._request, self._evaluator, self._live = request, evaluator, live
        self._tuning = _empty(request, evaluator)
        self._search: SearchResult | None = None
        self._is_complete = False

    def run(self) -> Run:
        status: Literal["complete", "interrupted"] = "complete"
        try:
            if self._request.dry_run:
                self._dry_run()
            else:
                self._tune()
        except TrialFailed as failed:
            raise UserCodeError(
                "the server does not run as it is",
                why=f"{failed.kind}: {failed.why}",
                next=f"{self._evaluator.template.line({})}   by hand",
            ) from failed
        except KeyboardInterrupt as stopped:
            status = "interrupted"
            if isinstance(stopped, SearchInterrupted):
                self._search = stopped.result
        return self._finished(status)

    def _tune(self) -> None:
        self._say("starting the server as it is")
        self._search = ladder.search(
            self._evaluator,
            self._settings(),
            lambda rung: self._live(RungDecided(rung)),
            on_race=lambda candidate: self._say(f"trying {candidate.change}"),
            on_diagnosis=lambda recipe, profile: self._live(Diagnosed(self._diagnosis(recipe, profile))),
        )
        self._confirm(self._search)
        self._is_complete = True

    def _settings(self) -> SearchSettings:
        request, evaluator = self._request, self._evaluator

        def reserve(step: float) -> float:
            share = FEWEST * evaluator.pair_cost(BLOCKS) / request.budget
            return min(MOST_RESERVE, max(LEAST_RESERVE, share))

        # What is kept last has to be measured afresh, too: no time is left for a late try.
        return SearchSettings(
            budget=request.budget,
            certify=request.certify,
            reserve=reserve,
            late_reserve=lambda step: MOST_RESERVE,
        )

    def _confirm(self, search: SearchResult) -> None:
        recipe, evaluator = built(search.recipe), self._evaluator
        if not len(recipe):
            with suppress(TrialFailed):
                self._set_server(limits=evaluator.limit_checks(recipe))
            return
        self._say("measuring the gain after fresh starts")
        try:
            self._set(gate=evaluator.sameness(recipe))
            self._set_server(compared=len(evaluator.answers[recipe][0]))
            until = self._request.budget
            for baseline, final, gain, limits in confirmed(
                evaluator, recipe, until=until, noise=search.noise
            ):
                self._set(baseline=baseline, final=final, speedup=gain)
                self._set_server(limits=limits)
        except TrialFailed as failed:
            self._set(gate=Gate(word="undecided", reason=f"it failed when measured afresh: {failed.why}"))
        if self._tuning.baseline is not None and self._tuning.final is not None:
            self._live(TuningChanged(self._tuning))

    def _dry_run(self) -> None:
        evaluator = self._evaluator
        self._say("starting the server as it is")
        loop_profile = evaluator.diagnose(Recipe())
        plans = ladder.planned(evaluator, loop_profile, self._settings())
        self._set(
            before=self._diagnosis(Recipe(), loop_profile),
            ladder=[tuning_record.planned(candidate, seconds) for candidate, seconds in plans],
            ended=DRY,
        )

    def _finished(self, status: Literal["complete", "interrupted"]) -> Run:
        evaluator, live, search = self._evaluator, self._live, self._search
        recorded = live.run().tuning or self._tuning
        self._set(trials=evaluator.accounting.trials, seconds_by=dict(evaluator.accounting.seconds))
        if search is not None:
            recipe = built(search.recipe)
            self._set(
                before=recorded.before,
                after=self._diagnosis(recipe, search.after) if len(recipe) else None,
                ladder=search.ladder,
                ruled_out=search.ruled_out,
                recipe=applied(recipe),
                ended=search.ended if self._is_complete else "interrupted",
            )
            self._set_server(command=evaluator.template.line(values_of(recipe)), ready=self._ready(recipe))
        elif self._tuning.ended != DRY:
            self._set(before=recorded.before, ladder=recorded.ladder)
        self._set_server(unit=evaluator.unit, block=evaluator.block)
        if self._request.figure == "throughput" and evaluator.unit == "tokens":
            self._set_server(figure="output tokens per second")
        for name, side in (("baseline", self._tuning.baseline), ("final", self._tuning.final)):
            if side is not None:
                live(CaseChanged(_case(evaluator.template.line({}), name, side)))
        live(ChecksMade([*run_events.checks(self._tuning), *_generator_check(evaluator)]))
        live(TuningChanged(self._tuning))
        return live.finish(status)

    def _diagnosis(self, recipe: Recipe, profile: LoopProfile) -> Diagnosis:
        """The figure of a server as the record of a diagnosis."""
        seconds, figure = profile.step, self._request.figure
        rate = show(1 / seconds, "1/s").removesuffix("/s")
        text = f"{rate} {self._evaluator.unit}/s"
        if figure != "throughput":
            text = f"{TITLES[figure]} {show(seconds, 's')}"
        return structs.replace(diagnosis(recipe, profile), sentence=text)

    def _ready(self, recipe: Recipe) -> dict[str, float]:
        sides = {"baseline": Recipe(), **({"final": recipe} if len(recipe) else {})}
        starts = {name: self._evaluator.ready[side] for name, side in sides.items()}
        return {name: median(seconds) for name, seconds in starts.items() if seconds}

    def _set(self, **fields: Any) -> None:
        self._tuning = structs.replace(self._tuning, **fields)

    def _set_server(self, **fields: Any) -> None:
        assert self._tuning.server is not None
        self._set(server=structs.replace(self._tuning.server, **fields))

    def _say(self, text: str) -> None:
        budget = self._request.budget
        done = min(0.99, self._evaluator.elapsed() / budget)
        self._live.say(text, done, (1.0 - done) * budget)


def _generator_check(evaluator: ServerEvaluator) -> list[Check]:
    """A warning where blocks say nothing of the server, with what to do."""
    lost = evaluator.unusable
    if not lost:
        return []
    usable = sum(map(len, evaluator.cases.values()))
    sentence = f"{len(lost)} of {len(lost) + usable} blocks say nothing of the server: {lost[-1].sentence}"
    return [Check(name="generator", outcome="warn", sentence=sentence, next=lost[-1].next)]


def _start(live: LiveRun, request: ServerRequest, evaluator: ServerEvaluator) -> None:
    """Report a run that begins; what is sent and its headers are not stored."""
    subject = Subject(target=evaluator.template.line({}), source="server")
    tuning, command = _empty(request, evaluator), typed_command(request.url)
    run_events.start(live, request, _SETTINGS, subject, tuning, command=command)


def _case(line: str, name: str, side: Measured) -> Case:
    samples = [seconds for start in side.samples for seconds in start]
    starts = [number for number, start in enumerate(side.samples) for _ in start]
    series = Series(metric=BLOCK, samples=samples, process=starts, probe="client")
    axes: dict[str, Axis] = {"variant": name}
    return Case(key=case_key(line, axes), target=line, axes=axes, series=[series])
