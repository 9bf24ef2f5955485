"""What is tuned, as a session sees it: a script, a model, a server's flags. All that differs stands here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from laptime.kit.errors import LaptimeError
from laptime.records.case import Axis
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.series import Metric
from laptime.records.tuning import Diagnosis, Gate, Rung
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate, Evaluator, TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.race import LONGEST
from laptime.tuning.search.settings import EarlierEffect
from laptime.tuning.session.afresh import FinalCost, Pair
from laptime.tuning.session.journal import SessionJournal
from laptime.tuning.session.record import Record
from laptime.tuning.time_accounting import TimeAccounting


class Accounted(Evaluator, Protocol):
    """An evaluator that knows what it has spent."""

    @property
    def accounting(self) -> TimeAccounting:
        """Seconds and processes."""


class Subject(ABC):
    """What is tuned. A session calls the methods in the order in which they stand here.

    Attributes:
        request: has budget, certify, goal, dry_run, name and origins. evaluator: of the search.
        subjects, more: fields of the run. axes: of its cases.
        earlier: what earlier sessions have shown of changes; filled by `diagnosed`.
    """

    PLAN: ClassVar[tuple[str, ...]]
    """Fields of the request that are the run's plan."""
    METRIC: ClassVar[Metric]
    PROBE: ClassVar[str] = "wall"
    UNIT: ClassVar[str] = "step"
    """What is timed, in words."""
    BEGINS: ClassVar[str]
    """What is done first, in words."""
    AFRESH: ClassVar[str] = "measuring the gain in new processes"
    MOST_PAIRS: ClassVar[int] = 9
    follows: str = "a gate and the final measurement"
    evaluator: Accounted

    def __init__(self, request: Any) -> None:
        self.request = request
        self.earlier: dict[str, EarlierEffect] = {}

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
            recipe=applied(recipe),
            step=profile.step,
            noise=profile.noise,
            detectable=ranking.detectable(profile.noise, LONGEST[-1]),
            batch=profile.batch,
            peak=profile.peak,
            facts=sorted(profile.facts),
        )

    def diagnosed(self, profile: LoopProfile) -> None:
        """It was diagnosed as it is: raise for one that cannot be tuned, get ready for races."""

    @abstractmethod
    def refusal(self, failed: TrialFailed) -> LaptimeError:
        """The error of one that does not run as it is."""

    @abstractmethod
    def cost(self, recipe: Recipe, step: float) -> FinalCost:
        """What follows the search, if it ended with this set now; `step`: its seconds, as far as known."""

    def seconds_between(self, recipe: Recipe) -> float:
        """Seconds between the search and what `cost` is of."""
        return 0.0

    def decided(self, rung: Rung) -> Rung:
        """A rung with what only the subject knows of it."""
        return rung

    def keep(self, journal: SessionJournal) -> None:
        """After each decision: keep what a session that goes on needs besides."""

    def planned(self, rungs: list[Rung], profile: LoopProfile) -> list[Rung]:
        """The ladder of a dry run, from the rungs of the search."""
        return rungs

    # After it

    def chosen(self, record: Record, search: SearchResult) -> SearchResult:
        """The search with the set that is handed back; what is chosen after it is chosen here."""
        return search

    @abstractmethod
    def gate(self, recipe: Recipe) -> Gate:
        """Of the final set.

        Raises:
            TrialFailed: it does not run.
        """

    def written(self, record: Record, search: SearchResult) -> None:
        """Write what the final side of the pairs needs."""

    @abstractmethod
    def pair(self, recipe: Recipe, number: int) -> Pair:
        """As it is and the final set, each in a fresh process.

        Raises:
            TrialFailed: one does not run.
        """

    def is_decided(self) -> bool:
        """Whether more pairs would tell nothing but the gain."""
        return True

    def measured(self, record: Record, recipe: Recipe) -> None:
        """A pair was measured: record what else it says."""

    def hand_back(self, record: Record, search: SearchResult) -> None:
        """Hand the final set back, measured or not."""

    def finish(self, record: Record, search: SearchResult) -> None:
        """The last thing of a session that was not interrupted, whether it kept something or not."""

    def hand_back_so_far(self, record: Record, search: SearchResult) -> None:
        """After Ctrl-C: hand back what was kept until then. Nothing is run any more."""

    # The record

    def diagnosis_after(self, record: Record, search: SearchResult) -> Diagnosis | None:
        """The diagnosis of the final set; None where none was kept, or it is not known."""
        return self.diagnosis(search.recipe, search.after) if len(search.recipe) else None

    def ladder(self, rungs: list[Rung], record: Record) -> list[Rung]:
        """The ladder of the record."""
        return rungs

    @abstractmethod
    def environment(self) -> Environment:
        """Where it ran."""

    @abstractmethod
    def axes(self) -> Mapping[str, Axis]:
        """Axes of its cases besides the variant."""

    def recorded(self, record: Record) -> None:
        """The last look at the record before it is told."""

    def checks(self) -> list[Check]:
        """Whether its numbers can be trusted, besides what every session asks."""
        return []

    def close(self) -> None:
        """End what is still running."""

    def trying(self, candidate: Candidate, kept: str) -> str:
        """What is said of a race that begins; `kept`: labels of what Ctrl-C would hand back."""
        return f"trying {candidate.change}"
