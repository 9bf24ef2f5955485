"""The common parts of sessions and subjects: the record of what is known so far, and a subject's contract.

A `Subject` is a script, a model, a server's flags: all that differs between their sessions. A `Record` makes
the events of the run: its beginning, cases, checks, the end."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeVar

from msgspec import structs

from laptime.analysis.tuned import DRY
from laptime.experiment.pairs import Pair
from laptime.kit.errors import LaptimeError
from laptime.records.case import Axis
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.series import Metric
from laptime.records.tuning import Diagnosis, Gate, Rung, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import list_applied
from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate, Evaluator, TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.race import LONGEST
from laptime.tuning.search.settings import EarlierEffect
from laptime.tuning.session.final_gain import FinalCost
from laptime.tuning.session.journal import SessionJournal

_T = TypeVar("_T")
MOST_OTHERS = 0.1  # share of the CPUs that other programs may use during a session


class Record:
    """The record of a session so far: its run, its request, seconds since it began."""

    def __init__(self, live: LiveRun, request: Any, elapsed: Callable[[], float], **fields: Any) -> None:
        """`fields`: of the tuning that begins."""
        self.live, self.request, self.elapsed = live, request, elapsed
        self.status: Literal["complete", "interrupted"] = "complete"
        self.search: SearchResult | None = None  # None before it ended
        mode: Literal["certify", "fast"] = "certify" if request.certify else "fast"
        self.tuning = Tuning(
            goal=request.goal, mode=mode, budget=request.budget, ended="interrupted", **fields
        )

    def set(self, **fields: Any) -> None:
        """Set fields of the record."""
        self.tuning = structs.replace(self.tuning, **fields)

    def set_part(self, part: str, **fields: Any) -> None:
        """Set fields of a part of the record: its patch, model or server."""
        self.set(**{part: structs.replace(getattr(self.tuning, part), **fields)})

    def say(self, text: str) -> None:
        """Tell what is going on, and how much of the budget is left."""
        budget = self.request.budget
        done = min(0.99, self.elapsed() / budget)
        self.live.say(text, done, (1.0 - done) * budget)


def checks_of(tuning: Tuning, complaint: str = "") -> list[Check]:
    """Whether the gain was measured and the gate passed; why the journal could not be written."""
    checks = []
    if complaint:
        sentence = f"the session could not be saved for --resume: {complaint}"
        checks.append(
            Check(name="kept", outcome="note", sentence=sentence, next="LAPTIME_HOME=another/FOLDER")
        )
    if tuning.ended != DRY:
        checks.append(_check_gain(tuning))
    if tuning.gate.word == "failed":
        checks.append(Check(name="gate", outcome="fail", sentence=tuning.gate.reason, next="--strict"))
    return checks


def quiet_check(others: float | None) -> list[Check]:
    """A warning if other programs had more of the CPUs, on the average, than races can bear."""
    cpus = os.cpu_count() or 1
    if others is None or others < MOST_OTHERS * cpus:
        return []
    used = f"other programs used {others:.1f} of {cpus} CPUs meanwhile"
    sentence = f"{used}: what runs beside them takes longer, and scatters"
    return [Check(name="quiet", outcome="warn", sentence=sentence, next="laptime doctor")]


def _check_gain(tuning: Tuning) -> Check:
    speedup = tuning.speedup
    if speedup is None:
        return Check(name="measured", outcome="note", sentence="no gain was measured")
    if speedup.word == "unclear":
        low, high = speedup.ci95
        sentence = f"{speedup.pairs} pairs leave open whether it is faster: [{low:.3g}, {high:.3g}]"
        return Check(name="measured", outcome="warn", sentence=sentence, next="--budget 30m")
    how = f", one after the other: {speedup.apart}" if speedup.apart else ""
    if speedup.forked:
        how += f"; {speedup.forked} of them were forked from an interpreter that had imported the libraries"
    sentence = f"measured again in {speedup.pairs} pairs of processes{how}"
    return Check(name="measured", outcome="ok", sentence=sentence)


# What is tuned


class Subject(ABC):
    """The subject of a session, which calls the methods in the order in which they stand here."""

    PLAN: ClassVar[tuple[str, ...]]  # fields of the request that are the run's plan
    METRIC: ClassVar[Metric]
    PROBE: ClassVar[str] = "wall"
    UNIT: ClassVar[str] = "step"  # what is timed, in words
    DEPEND: ClassVar[bool] = False  # see `SearchSettings.depend`
    BEGINS: ClassVar[str]  # what is done first, in words
    AFRESH: ClassVar[str] = "measuring the gain in new processes"
    MOST_PAIRS: ClassVar[int] = 9
    follows: str = "a gate and the final measurement"
    evaluator: Evaluator
    apart: str = ""  # why the sides of a pair run one after the other; "" if they take turns
    forked: int = 0  # pairs whose processes were forks

    def __init__(self, request: Any) -> None:
        self.request = request  # has budget, certify, goal, dry_run, name and origins
        self.earlier: dict[str, EarlierEffect] = {}  # what earlier sessions have shown, see `diagnose`

    def recall(self, journal: SessionJournal) -> None:
        """Take what the session that is resumed has kept beside its decisions."""

    @abstractmethod
    def run_fields(self) -> dict[str, Any]:
        """Fields of the run that begins: `subjects` and what else."""

    @abstractmethod
    def tuning_fields(self) -> dict[str, Any]:
        """Fields of the tuning that begins, besides goal, mode and budget."""

    # Before and in the search

    def diagnosis(self, recipe: Recipe, profile: LoopProfile) -> Diagnosis:
        """A loop profile as it is recorded."""
        return Diagnosis(
            recipe=list_applied(recipe),
            step=profile.step,
            noise=profile.noise,
            detectable=ranking.detectable(profile.noise, LONGEST[-1]),
            batch=profile.batch,
            peak=profile.peak,
            facts=sorted(profile.facts),
        )

    def diagnose(self, profile: LoopProfile) -> None:
        """It was diagnosed as it is: raise for one that cannot be tuned, get ready for races."""

    @abstractmethod
    def refusal(self, failed: TrialFailed) -> LaptimeError:
        """The error of one that does not run as it is."""

    @abstractmethod
    def cost(self, recipe: Recipe, step: float) -> FinalCost:
        """Return the cost after a search that ends with this set; `step`: its seconds, as far as known."""

    def decide(self, rung: Rung) -> Rung:
        """A rung with what only the subject knows of it."""
        return rung

    def keep(self, journal: SessionJournal) -> None:
        """After each decision: keep what a session that goes on needs besides."""

    def plan(self, rungs: list[Rung], profile: LoopProfile) -> list[Rung]:
        """The ladder of a dry run, from the rungs of the search."""
        return rungs

    # After it

    def choose(self, record: Record, search: SearchResult) -> SearchResult:
        """The search with the set that is handed back; what is chosen after it is chosen here."""
        return search

    @abstractmethod
    def gate(self, recipe: Recipe) -> Gate:
        """Run the gate of the final set. Raises TrialFailed: it does not run."""

    def write(self, record: Record, search: SearchResult) -> None:
        """Write what the final side of the pairs needs."""

    @abstractmethod
    def pair(self, recipe: Recipe, number: int, until: float) -> Pair:
        """Run it as it is and with the final set, each in a fresh process; `until`: when it should be over.
        Raises TrialFailed: one does not run."""

    def at_once(self, in_turns: Callable[[], _T], apart: Callable[[], _T]) -> _T:
        """A pair whose sides take turns; if they do not run at once, it and all later ones run apart."""
        if not self.apart:
            try:
                return in_turns()
            except TrialFailed as failed:
                if failed.kind == "budget":
                    raise
                alone = {"memory": "both do not fit into memory at once"}
                self.apart = alone.get(failed.kind, f"at once they do not run: {failed.why}")
        return apart()

    def is_decided(self) -> bool:
        """Whether more pairs would tell nothing but the gain."""
        return True

    def measure(self, record: Record, recipe: Recipe) -> None:
        """A pair was measured: record what else it says."""

    def hand_back(self, record: Record, search: SearchResult) -> None:
        """Hand the final set back, measured or not."""

    def finish(self, record: Record, search: SearchResult) -> None:
        """The last thing of a session that was not interrupted, whether it kept something or not."""

    def hand_back_so_far(self, record: Record, search: SearchResult) -> None:
        """After Ctrl-C: hand back what was kept until then. Nothing is run any more."""

    # The record

    def diagnosis_after(self, record: Record, search: SearchResult) -> Diagnosis | None:
        """The diagnosis of the final set; None if none was kept, or it is not known."""
        return self.diagnosis(search.recipe, search.after) if len(search.recipe) else None

    def ladder(self, rungs: list[Rung], record: Record) -> list[Rung]:
        """The ladder of the record."""
        return rungs

    @abstractmethod
    def environment(self) -> Environment:
        """Return where it ran."""

    @abstractmethod
    def axes(self) -> Mapping[str, Axis]:
        """Axes of its cases besides the variant."""

    def record(self, record: Record) -> None:
        """The last look at the record before it is told."""

    def checks(self) -> list[Check]:
        """Whether its numbers can be trusted, besides what every session asks."""
        return []

    def close(self) -> None:
        """End what is still running."""

    def trying(self, candidate: Candidate, kept: str) -> str:
        """Return the text for a race that begins; `kept`: labels of what Ctrl-C would hand back."""
        return f"trying {candidate.change}"
