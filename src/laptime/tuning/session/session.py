"""One session of `laptime tune`, whatever is tuned; what differs is its `Subject`.

    as it is ── candidates ── ladder (race, gate, keep or drop, diagnose again) ── leave one out
                                                                                       │
        Run <── handed back <── as it is and the final set measured again, in turns <─┘

After Ctrl-C at any moment what is known so far is the result. Each decision is in the journal when it is
made, and `--resume` goes on from there."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.analysis.tuned import CONTROL, DRY
from laptime.experiment.pairs import LEAST, gain, measure_pairs, ratios
from laptime.kit.units import show
from laptime.probes import machine
from laptime.probes.others import OthersMeter
from laptime.records.case import Axis, Case, case_key
from laptime.records.check import Finding
from laptime.records.event import (
    CaseChanged,
    ChecksMade,
    Diagnosed,
    EnvironmentChanged,
    Event,
    FindingAdded,
    GainMeasured,
    Listener,
    RungDecided,
    TuningChanged,
    so_far,
)
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.records.series import Series
from laptime.records.tuning import Gate, GateWord, Measured, Rung, Shortfall, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import list_applied, recipe_of
from laptime.tuning.search import ladder
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchInterrupted, SearchResult
from laptime.tuning.search.race import make_rung
from laptime.tuning.search.settings import SearchSettings
from laptime.tuning.session import final_gain
from laptime.tuning.session.final_gain import CAUTION
from laptime.tuning.session.journal import SessionJournal, is_over, work_folder
from laptime.tuning.session.subject import Record, Subject, checks_of, quiet_check

BETWEEN = 0.25  # share of the budget at most for what is chosen between the search and the pairs


def run_session(
    journal: SessionJournal, make: Callable[[Path], Subject], emit: Listener, opening: str = ""
) -> Run:
    """Tune a subject: search, measure, hand back. The run; its `tuning` has the ladder, the gain, the gate,
    and why it ended. make: the subject, in the session's work folder. emit: gets every event: decisions,
    progress. opening: what is said while the subject is made."""
    subjects: list[Subject] = []

    def both(event: Event) -> None:
        journal(event)
        if isinstance(event, RungDecided):
            subjects[0].keep(journal)
        emit(event)

    live, others = LiveRun("tune", both), OthersMeter()
    if opening:
        live.say(opening)
    with work_folder("tune") as folder, closing(make(folder)) as subject:
        subjects.append(subject)
        subject.recall(journal)
        session = Session(subject, live, journal.rungs)
        session.run()
        run = session.over(complaint=journal.complaint, others=others.cpus())
    if is_over(run):
        journal.over()
    return run


def run_verification(
    make: Callable[[Path], Subject],
    recipe: Recipe,
    since_then: Callable[[Record], Finding],
    emit: Listener,
    opening: str = "",
    **fields: Any,
) -> Run:
    """Measure and gate an earlier result again: the run, of verb `verify`. make: as of `run_session`. recipe:
    the earlier final set. since_then: the earlier gain beside today's. fields: of the tuning. Others: as of
    `run_session`."""
    live, others = LiveRun("verify", emit), OthersMeter()
    if opening:
        live.say(opening)
    with work_folder("verify") as folder, closing(make(folder)) as subject:
        session = Session(subject, live)
        session.verify(recipe, **fields)
        live(FindingAdded(since_then(session)))
        return session.over(others=others.cpus())


class Session(Record):
    """One session; as a `Record` it is what is known so far."""

    def __init__(self, subject: Subject, live: LiveRun, earlier: Sequence[Rung] = ()) -> None:
        """`earlier`: rungs of the session that is resumed."""
        request = subject.request
        super().__init__(live, request, subject.evaluator.elapsed, **subject.tuning_fields())
        self.subject = subject
        self._earlier = earlier
        self._is_diagnosed = self._is_complete = False
        origins = request.origins
        live.start(
            name=request.name,
            environment=machine.environment(),
            plan={
                name: Setting(value=getattr(request, name), origin=origins.get(name, "default"))
                for name in subject.PLAN
            },
            tuning=reduce(so_far, map(RungDecided, earlier), self.tuning),
            **subject.run_fields(),
        )

    def run(self) -> Tuning:
        """Search, then measure, then hand back.
        Raises LaptimeError: it does not run as it is, or cannot be tuned. KeyboardInterrupt: before anything
        was known."""
        try:
            self.say(self.subject.BEGINS)
            if self.request.dry_run:
                self._dry_run()
            else:
                self._tune()
        except TrialFailed as failed:
            raise self.subject.refusal(failed) from failed
        except KeyboardInterrupt as stopped:
            if not self._is_diagnosed:
                raise
            self.status = "interrupted"
            if isinstance(stopped, SearchInterrupted):
                self.search = stopped.result
            if self.search is not None:
                self.subject.hand_back_so_far(self, self.search)
        self._record()
        return self.tuning

    # The search

    def _tune(self) -> None:
        subject = self.subject
        search = ladder.search(
            subject.evaluator,
            self.settings(),
            lambda rung: self.live(RungDecided(subject.decide(rung))),
            earlier=self._earlier,
            on_race=lambda candidate: self.say(subject.trying(candidate, self._labels())),
            on_diagnosis=self._on_diagnosis,
        )
        self.search = search
        self.search = search = subject.choose(self, search)
        if len(search.recipe):
            self._measure_final(search)
        else:
            self.set(shortfall=self._shortfall_of_races(search))
        subject.finish(self, search)
        self._is_complete = True

    def settings(self) -> SearchSettings:
        """Return the settings of a search that leaves enough of the budget to what follows it."""
        request, subject = self.request, self.subject
        budget: float = request.budget

        def reserve(step: float) -> float:
            cost = subject.cost(self.kept, step)
            return min(1.0, cost.keep_back(budget) / budget) + min(BETWEEN, cost.between / budget)

        return SearchSettings(
            budget=budget,
            certify=request.certify,
            goal="memory" if request.goal == "memory" else "throughput",
            reserve=reserve,
            late_reserve=lambda step: CAUTION * subject.cost(self.kept, step).least / budget,
            bare_reserve=lambda step: subject.cost(self.kept, step).bare / budget,
            earlier_effects=subject.earlier,
            unit=subject.UNIT,
            depend=subject.DEPEND,
            follows=subject.follows,
        )

    @property
    def kept(self) -> Recipe:
        """The changes that are kept now."""
        recorded = self.live.run().tuning
        return recipe_of(recorded) if recorded else Recipe()

    def _labels(self) -> str:
        recorded = self.live.run().tuning
        return ", ".join(rung.label for rung in recorded.ladder if rung.kept) if recorded else ""

    def _on_diagnosis(self, recipe: Recipe, profile: LoopProfile) -> None:
        if not self._is_diagnosed:
            self.subject.diagnose(profile)
        self._is_diagnosed = True
        self.live(Diagnosed(self.subject.diagnosis(recipe, profile)))

    def _dry_run(self) -> None:
        subject = self.subject
        profile = subject.evaluator.diagnose(Recipe())
        self._on_diagnosis(Recipe(), profile)
        plans = ladder.plan_races(subject.evaluator, profile, self.settings())
        rungs = [
            structs.replace(
                make_rung(one), seconds=seconds, reason=f"would be tried, about {show(seconds, 's')}"
            )
            for one, seconds in plans
        ]
        self.set(
            before=subject.diagnosis(Recipe(), profile),
            ladder=subject.plan(rungs, profile),
            ruled_out=subject.evaluator.candidates(profile, Recipe()).ruled_out,
            ended=DRY,
        )

    # After it

    def _measure_final(self, search: SearchResult) -> None:
        subject, recipe = self.subject, search.recipe
        self.say("the gate of the whole set")
        self.set(gate=self._gate(recipe, "undecided"))
        subject.write(self, search)
        try:
            self._measure(recipe, search.after.step)
        except TrialFailed as failed:
            self.set(gate=Gate(word="undecided", reason=f"it failed when measured again: {failed.why}"))
        subject.hand_back(self, search)

    def verify(self, recipe: Recipe, **fields: Any) -> None:
        """Gate and measure an earlier final set as it is now. fields: of the record.
        Raises LaptimeError: it does not run as it is."""
        subject, broken = self.subject, "it does not run any more: "
        self.say(subject.BEGINS)
        try:
            profile = subject.evaluator.diagnose(Recipe())
        except TrialFailed as failed:
            raise subject.refusal(failed) from failed
        self._on_diagnosis(Recipe(), profile)
        self.set(before=subject.diagnosis(Recipe(), profile), ended="complete", **fields)
        self.set(recipe=list_applied(recipe))
        self.say("the gate of the earlier result")
        self.set(gate=self._gate(recipe, "failed", broken))
        try:
            self._measure(recipe, profile.step)
        except TrialFailed as failed:
            self.set(gate=Gate(word="failed", reason=broken + failed.why))
        self._record_spent()

    def _gate(self, recipe: Recipe, broken: GateWord, lead: str = "") -> Gate:
        """The gate of a whole recipe; of one that does not run the word `broken`, with the reason."""
        try:
            return self.subject.gate(recipe)
        except TrialFailed as failed:
            return Gate(word=broken, reason=lead + failed.why)

    def _measure(self, recipe: Recipe, step: float) -> None:
        """Measure the gain again; the record is whole after every pair.
        Raises TrialFailed: one of the sides does not run."""
        subject, budget = self.subject, self.request.budget
        self.say(subject.AFRESH)
        cost, began = subject.cost(recipe, step), self.elapsed()
        try:
            for pairs in measure_pairs(
                lambda number, until: subject.pair(recipe, number, until),
                most=subject.MOST_PAIRS,
                elapsed=self.elapsed,
                until=budget - cost.hand_back - CAUTION * (cost.check + cost.record),
                end=budget - cost.hand_back,
                expected=cost.pair,
                hurried=cost.hurried,
                is_decided=subject.is_decided,
            ):
                speedup = gain(ratios(pairs), subject.apart, subject.forked)
                baseline, final = final_gain.speeds(pairs, speedup)
                average = (self.elapsed() - began) / len(pairs)
                cost = replace(cost, pair=max(cost.pair, average), hurried=max(cost.hurried, average))
                self.set(baseline=baseline, final=final, speedup=speedup)
                subject.measure(self, recipe)
        except TrialFailed as failed:
            if failed.kind != "budget":
                raise
        if self.tuning.speedup is None:
            self.set(shortfall=cost.shortfall(began, budget))
        elif self.tuning.baseline and self.tuning.final:
            self.live(GainMeasured(self.tuning.baseline, self.tuning.final))

    def _shortfall_of_races(self, search: SearchResult) -> Shortfall | None:
        """Return what the first race lacked; None if one was run, or nothing was worth one."""
        if not search.shortest or any(rung.rounds for rung in search.ladder if rung.name != CONTROL):
            return None
        cost, began = self.subject.cost(search.recipe, search.after.step), self.elapsed()
        needs, budget = search.shortest + cost.bare, self.request.budget
        return final_gain.shortfall(
            "race", "no change could be tried", needs, began, budget - began, LEAST * cost.pair
        )

    # The record

    def _record(self) -> None:
        """Fill the record: of a whole session, or of what is known."""
        search, recorded, subject = self.search, self.live.run().tuning or self.tuning, self.subject
        if search is not None:
            self.set(
                before=recorded.before,
                after=subject.diagnosis_after(self, search),
                ladder=subject.ladder(search.ladder, self),
                ruled_out=search.ruled_out,
                recipe=list_applied(search.recipe),
                ended=search.ended if self._is_complete else "interrupted",
                why_ended=search.why_ended if self._is_complete else "",
            )
        elif self.tuning.ended != DRY:
            names = ("before", "after", "ladder", "recipe")
            self.set(**{name: getattr(recorded, name) for name in names})
        self._record_spent()

    def _record_spent(self) -> None:
        accounting = self.subject.evaluator.accounting
        self.set(trials=accounting.trials, seconds_by=dict(accounting.seconds))
        self.subject.record(self)

    def over(self, *, complaint: str = "", others: float | None = None) -> Run:
        """Report the record; the run. complaint: of the journal. others: CPUs that other programs used."""
        subject, live, tuning = self.subject, self.live, self.tuning
        live(EnvironmentChanged(subject.environment()))
        for name, side in (("baseline", tuning.baseline), ("final", tuning.final)):
            if side is not None:
                live(CaseChanged(self._case({"variant": name, **subject.axes()}, side)))
        live(ChecksMade([*checks_of(tuning, complaint), *quiet_check(others), *subject.checks()]))
        live(TuningChanged(tuning))
        return live.finish(self.status)

    def _case(self, axes: dict[str, Axis], side: Measured) -> Case:
        """One side of the final measurement, so that `show`, `compare` and `history` know it."""
        target, subject = self.live.run().subjects[0].target, self.subject
        samples = [seconds for process in side.samples for seconds in process]
        processes = [number for number, process in enumerate(side.samples) for _ in process]
        series = Series(metric=subject.METRIC, samples=samples, process=processes, probe=subject.PROBE)
        return Case(key=case_key(target, axes), target=target, axes=axes, series=[series])
