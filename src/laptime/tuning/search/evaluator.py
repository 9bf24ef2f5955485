"""The contract between a search and the machine that runs its trials.

`script/trial_evaluator.py` is the real one, `tests/fixtures/scripted_evaluator.py` one whose truth is known.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Protocol

from laptime.records.tuning import Gate
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.time_accounting import TimeAccounting


class TrialFailed(Exception):
    """A recipe crashed, hung, ran out of memory, recompiled forever or could not be applied."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind  # crashed, hung, memory, recompiles, refused, no_steps, budget
        self.why = why  # one line for the ladder


@dataclass(frozen=True)
class Round:
    """One paired round: both recipes ran side by side in time."""

    ratio: float  # time per sample of the candidate over that of the incumbent (below 1 is faster)
    memory: float | None = None  # the same of their peaks; None if unknown
    # number of the pair of fresh processes it comes from; rounds of one process are less independent
    process: int = 0


@dataclass(frozen=True)
class Candidate:
    """Something to try."""

    change: Change
    title: str = ""  # in words
    numerics: str = "exact"  # its class
    bound: float = 0.0  # seconds of a step that it can save at most, in the present loop profile
    cost: float = 1.0  # seconds that one round of racing it takes, about
    start: float = 0.0  # seconds before its first round
    prior: float = 0.5  # share of its bound that it is expected to reach, 0 to 1; ranks, decides nothing
    # further options of the same optimization, ordered; a one-dimensional search goes through them
    space: tuple[Change, ...] = ()
    needs: frozenset[str] = frozenset()  # facts, as the two that follow
    gives: frozenset[str] = frozenset()
    conflicts: frozenset[str] = frozenset()
    risky: bool = False  # it may make a step much slower, and hide what others gain that are raced with it
    order: float = 0.0  # by earlier sessions; negative: before all others, positive: behind them
    earlier: str = ""  # what they have shown, in words


@dataclass(frozen=True)
class CandidateSet:
    """The catalogue's candidates for a loop profile."""

    usable: tuple[Candidate, ...] = ()  # in no order
    ruled_out: dict[str, str] = field(default_factory=dict)  # names with the reason why they are not tried


class Evaluator(Protocol):
    """The machine, the script, the catalogue."""

    @property
    def accounting(self) -> TimeAccounting:
        """Seconds and processes that the session has used."""

    def elapsed(self) -> float:
        """Seconds that it has used."""

    def diagnose(self, recipe: Recipe) -> LoopProfile:
        """The loop under this recipe. Raises TrialFailed: it does not run."""

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        """Return the candidates on top of a recipe.

        A change of the recipe that has other options is a candidate, too, with its bound under this recipe:
        when the bottleneck has moved, the options beside the present one get another chance."""

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Generator[Round]:
        """Paired rounds in random order, for as long as they are asked for; closing the iterator ends the
        trials. fresh: every round in two fresh processes, though the change could be flipped in one.
        Raises TrialFailed: the candidate does not run, or not to the first round."""

    def gate(self, incumbent: Recipe, candidate: Recipe, numerics: str) -> Gate:
        """Whether the candidate still trains the same, by the gate of its class."""
