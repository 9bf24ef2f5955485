"""The settings of a search: budget, error rates, goal, and what is reserved for the time after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from laptime.analysis.paired import MARGIN
from laptime.tuning.search.earlier import EarlierEffect
from laptime.tuning.search.evaluator import Candidate


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The settings of a search.

    Attributes:
        budget: seconds of the session. reserve: share of it for the final measurement, the patch and the gate
            of the whole, by the incumbent's seconds a step: a faster one is measured sooner.
        late_reserve: the share that gates and measures a single change. While nothing was kept, the
            rest of `reserve` is spent on further changes when all other time is gone.
        bare_reserve: the share that gates it and hands it back without a measured gain, which is what is left
            to do where nothing was kept and that time is gone, too; None: such a session ends.
        leave_out: share of the budget for leave-one-out, at most.
        certify: error rates hold for the whole session, and every round has its own processes.
        goal: throughput or memory. margin: share below which nothing is claimed.
        looks: numbers of rounds at which races are looked at; None: from the time there is.
        regrow: a rejected change is tried again when its share of the step has grown by this factor, or when
            the bottleneck of that time is none now: its gain may have been hidden behind it.
        climb: races along one line of options at most. unit: what is timed, in words; follows: what `reserve`
            is for.
        earlier_effects: what earlier sessions have shown, by name of the change; orders the candidates.
    """

    budget: float = 600.0
    reserve: Callable[[float], float] = lambda step: 0.15
    late_reserve: Callable[[float], float] = lambda step: 0.05
    bare_reserve: Callable[[float], float] | None = None
    leave_out: float = 0.15
    certify: bool = False
    goal: Literal["throughput", "memory"] = "throughput"
    margin: float = MARGIN
    looks: tuple[int, ...] | None = None
    regrow: float = 1.5
    climb: int = 6
    earlier_effects: Mapping[str, EarlierEffect] = field(default_factory=dict)
    unit: str = "step"
    follows: str = "a gate and the final measurement"

    def reserved(self, step: float, *, is_late: bool, is_bare: bool) -> float:
        """The share of the budget that is left alone now.

        Args:
            step: the incumbent's seconds. is_late, is_bare: what `SearchState` knows by these names.
        """
        share = self.reserve(step)
        if is_late:
            share = min(share, self.late_reserve(step))
        if is_bare and self.bare_reserve is not None:
            share = min(share, self.bare_reserve(step))
        return share

    def in_order(self, candidate: Candidate, step: float) -> Candidate:
        """The candidate with its place by what earlier sessions have shown of it.

        Args:
            step: seconds of a step.
        """
        effect = self.earlier_effects.get(candidate.change.name)
        return effect.applied(candidate, step) if effect is not None else candidate
