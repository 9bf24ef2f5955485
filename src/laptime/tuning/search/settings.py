"""The settings of a search: budget, error rates, goal, what is left to the time after it, and what earlier
sessions have shown of a change.

That decides when a change is raced, and nothing else: each is raced and gated as if nothing were known of it.
The gain that is
expected is the mean of a normal distribution: before any session N(0, `EXPECTED`^2) of the log speedup; each
session adds its own with the variance of its interval and `BETWEEN`^2, by which scripts of one kind differ.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from laptime.analysis.paired import MARGIN
from laptime.records.tuning import Rung
from laptime.tuning.search.evaluator import Candidate

EXPECTED = 0.2  # standard deviation of the log speedup of a change of which nothing is known: most do little
BETWEEN = 0.1  # standard deviation, between scripts of one kind, of the log speedup of the same change
_RACED = ("faster", "slower", "same", "unclear")
_REFUSED = ("failed", "undecided")


@dataclass(frozen=True)
class EarlierEffect:
    """The joint result of earlier sessions for one change."""

    # Negative: it goes first; -1/k was the k-th that won, as some win only on top of others. 0: its bound
    # decides. 1: it goes last.
    order: float
    saved: float  # share of a step that it is expected to save, shrunk; 0 if it is not expected to save any
    sentence: str = ""  # why it goes first or last; "" if it does neither

    def apply(self, candidate: Candidate, step: float) -> Candidate:
        """The candidate with its place in the order. step: seconds of a step now; the bound stays what the
        diagnosis says."""
        if self.order == 0:
            return candidate
        prior = candidate.prior
        if self.order < 0 and candidate.bound > 0:
            prior = min(1.0, self.saved * step / candidate.bound)
        return replace(candidate, prior=prior, order=self.order, earlier=self.sentence)


def effects(sessions: Iterable[tuple[str, Iterable[Rung]]]) -> dict[str, EarlierEffect]:
    """Return the known effect of each change by name. sessions: id of the run and ladder of each, the newest
    first."""
    by_name: dict[str, list[tuple[str, Rung]]] = {}
    order: dict[str, float] = {}
    for run, ladder in sessions:
        decided = _pick_rungs(ladder)
        for name, rung in decided.items():
            by_name.setdefault(name, []).append((run, rung))
        kept = [name for name, rung in decided.items() if _is_won(rung)]
        for place, name in enumerate(kept, start=1):
            order.setdefault(name, -1 / place)
    return {name: _effect(rungs, order.get(name, 0.0)) for name, rungs in by_name.items()}


def _pick_rungs(ladder: Iterable[Rung]) -> dict[str, Rung]:
    """The rung of each name that says most: the first that won, else the first of all.

    Options that won later did so against the first, so that theirs is not the gain over the script as it is.
    What leave-one-out has dropped says nothing: it won, and was not worth anything."""
    ladder = list(ladder)
    dropped = {rung.name for rung in ladder if rung.dropped}
    decided: dict[str, Rung] = {}
    for rung in ladder:
        is_decided = rung.verdict == "failed" or (rung.verdict in _RACED and rung.speedup and rung.ci95)
        is_first_to_win = _is_won(rung) and not (rung.name in decided and _is_won(decided[rung.name]))
        if is_decided and rung.name not in dropped and (is_first_to_win or rung.name not in decided):
            decided[rung.name] = rung
    return decided


def _is_won(rung: Rung) -> bool:
    return rung.verdict == "faster" and rung.gate.word == "passed"


def _effect(rungs: list[tuple[str, Rung]], first: float) -> EarlierEffect:
    run, newest = rungs[0]
    if newest.verdict == "failed":
        return EarlierEffect(1, 0.0, f"last, because {newest.label} failed in {run}")
    if newest.gate.word in _REFUSED:
        said = "failed" if newest.gate.word == "failed" else "could not decide"
        return EarlierEffect(1, 0.0, f"last, because the gate of {newest.label} {said} in {run}")
    mean, deviation = _shrunk([rung for _, rung in rungs if rung.speedup and rung.ci95])
    saved = max(0.0, 1 - math.exp(-mean))
    if first and mean > deviation:
        return EarlierEffect(
            first, saved, f"first, because {newest.label} won {newest.speedup:.2g}x in {run}"
        )
    if mean < -deviation:
        return EarlierEffect(
            1, 0.0, f"last, because {newest.label} came out at {newest.speedup:.2g}x in {run}"
        )
    return EarlierEffect(0, saved)


def _shrunk(rungs: list[Rung]) -> tuple[float, float]:
    """Mean and standard deviation of the log speedup that is to be expected."""
    weighted, weights = 0.0, EXPECTED**-2
    for rung in rungs:
        low, high = rung.ci95 or (0.0, 0.0)
        error = (math.log(high) - math.log(low)) / (2 * 1.96) if low > 0 else EXPECTED
        weight = 1 / (error**2 + BETWEEN**2)
        weighted += weight * math.log(rung.speedup or 1.0)
        weights += weight
    return weighted / weights, weights**-0.5


# Settings


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The settings of a search."""

    budget: float = 600.0  # seconds of the session
    # Share of it for the final measurement, the patch and the gate of the whole, by the incumbent's seconds a
    # step: a faster one is measured sooner.
    reserve: Callable[[float], float] = lambda step: 0.15
    # The share that gates and measures a single change. While nothing was kept, the rest of `reserve` is
    # spent on further changes when all other time is gone.
    late_reserve: Callable[[float], float] = lambda step: 0.05
    # The share that gates it and hands it back without a measured gain, which is what is left to do where
    # nothing was kept and that time is gone, too; None: such a session ends.
    bare_reserve: Callable[[float], float] | None = None
    leave_out: float = 0.15  # share of the budget for leave-one-out, at most
    certify: bool = False  # error rates hold for the whole session, and every round has its own processes
    goal: Literal["throughput", "memory"] = "throughput"
    margin: float = MARGIN  # share below which nothing is claimed
    looks: tuple[int, ...] | None = None  # rounds at which races are looked at; None: from the time there is
    # A rejected change is tried again when its share of the step has grown by this factor, or when the
    # bottleneck of that time is none now: its gain may have been hidden behind it.
    regrow: float = 1.5
    climb: int = 6  # races along one line of options at most
    # Changes are of use beside others that were none alone: all are tried again, and in pairs; a clear gain
    # ends a race after two rounds.
    depend: bool = False
    # What earlier sessions have shown, by name of the change; orders the candidates.
    earlier_effects: Mapping[str, EarlierEffect] = field(default_factory=dict)
    unit: str = "step"  # what is timed, in words
    follows: str = "a gate and the final measurement"  # what `reserve` is for

    def reserve_now(self, step: float, *, is_late: bool, is_bare: bool) -> float:
        """The share of the budget that is left alone now. step: the incumbent's seconds. is_late, is_bare:
        what `SearchState` knows by these names."""
        share = self.reserve(step)
        if is_late:
            share = min(share, self.late_reserve(step))
        if is_bare and self.bare_reserve is not None:
            share = min(share, self.bare_reserve(step))
        return share

    def in_order(self, candidate: Candidate, step: float) -> Candidate:
        """The candidate with its place by what earlier sessions have shown of it. step: seconds of a step."""
        effect = self.earlier_effects.get(candidate.change.name)
        return effect.apply(candidate, step) if effect is not None else candidate
