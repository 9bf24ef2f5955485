"""Which candidate goes first, which is not worth a race, and which changes can stand together.

Order: seconds that a candidate may save, over seconds that it takes to find out. What may be saved is an
upper bound from the diagnosis, so the bottleneck comes first by itself; a candidate that has no share in it
comes last, and again when the bottleneck has moved.

Options of one change (workers, prefetch, threads, batch) are a line along which effects rise to a knee and
fall behind it: a `Climb` begins at the recommended one, and goes to its neighbours for as long as they win.
"""

import math
from collections.abc import Iterable, Iterator, Mapping

from laptime.analysis.paired import MARGIN
from laptime.analysis.student_t import t_quantile
from laptime.analysis.tuned import CONTROL
from laptime.records.tuning import RungWord
from laptime.tuning.loop_profile import UNKNOWN_NOISE, LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import Candidate
from laptime.tuning.search.race import FAST_ALPHA, LOOKS

TRUST = {"exact": 1.0, "reassociated": 1.0, "random": 0.95, "precision": 0.9, "algorithm": 0.6}
"""What a class of numerics weighs in the order: between equals the more harmless one goes first."""
ONE_BOTTLENECK = 0.02
"""Share of a step below which all other parts together cannot become the bottleneck: if the largest part
became three times as fast, they would still be a sixteenth."""


def expect_saving(candidate: Candidate) -> float:
    """Seconds of a step that it may save, by its bound and how often it keeps such a promise."""
    return candidate.bound * candidate.prior * TRUST.get(candidate.numerics, 1.0)


def promise(candidate: Candidate) -> float:
    """Expected seconds of a step saved, per second of racing."""
    return expect_saving(candidate) / max(candidate.start + LOOKS[0] * candidate.cost, 1e-9)


def rank(candidates: Iterable[Candidate], *, control_first: bool = True) -> list[Candidate]:
    """Best first. Equal ones by name, so that a session can be repeated. control_first: the control goes
    before all; else only what won clearly in earlier sessions goes before it."""

    def place(one: Candidate) -> tuple[bool, float, bool, float, str]:
        is_candidate = one.change.name != CONTROL
        return control_first and is_candidate, one.order, is_candidate, -promise(one), str(one.change)

    return sorted(candidates, key=place)


def is_concurrent(loop_profile: LoopProfile) -> bool:
    """Whether parts of a step run beside each other (workers, a device): one can hide behind another."""
    return "workers" in loop_profile.facts or loop_profile.enqueue is not None


def has_one_bottleneck(loop_profile: LoopProfile) -> bool:
    """Whether all but one part of a step (compute counts as one) are too small for the bottleneck to move.

    Never if parts run beside each other: what is hidden now can come out."""
    if is_concurrent(loop_profile):
        return False
    shares = loop_profile.bottlenecks.values()
    whole = sum(shares)  # not the step, which follows what was gained since
    return whole > 0 and whole - max(shares) < ONE_BOTTLENECK * whole


def share(candidate: Candidate, step: float) -> float:
    """Its bound as a share of the step, 0 to 1."""
    return min(1.0, max(0.0, candidate.bound / step)) if step > 0 else 1.0


def detectable(noise: float, rounds: int, alpha: float = FAST_ALPHA, margin: float = MARGIN) -> float:
    """Smallest saving, as a share of the step, that a race of so many rounds finds in half of all cases.
    noise: standard deviation of a round of the script against itself; 0: unknown. alpha: one-sided chance of
    error at the last look."""
    error = (noise or UNKNOWN_NOISE) / math.sqrt(rounds)
    return 1 - math.exp(-(math.log1p(margin) + t_quantile(1 - alpha, max(3, rounds // 2)) * error))


def excludes(one: Candidate, other: Candidate) -> bool:
    """Whether two changes cannot stand in one recipe; the same optimization replaces itself."""
    if one.change.name == other.change.name:
        return False
    return bool(one.gives & other.gives or one.conflicts & other.gives or other.conflicts & one.gives)


def rivals(candidate: Candidate, adopted: Mapping[str, Candidate], script: LoopProfile) -> list[str]:
    """Names of kept changes that have to go when this one comes, with those that need what only these give.
    script: the loop profile of the script as it is."""
    going = [name for name, other in adopted.items() if excludes(candidate, other)]
    while going:
        others = [other for name, other in adopted.items() if name not in (*going, candidate.change.name)]
        facts = script.facts.union(candidate.gives, *(other.gives for other in others))
        lost = frozenset().union(*(adopted[name].gives for name in going)) - facts
        more = [other.change.name for other in others if other.needs & lost]
        if not more:
            break
        going += more
    return going


def missing(
    candidate: Candidate, adopted: Mapping[str, Candidate], loop_profile: LoopProfile, script: LoopProfile
) -> list[str]:
    """Facts that the candidate needs and that do not hold, with those that must not and do ("!workers").
    adopted: candidates of the recipe by name. loop_profile: under the recipe. script: of the script as it is.
    """
    replaced = {candidate.change.name, *rivals(candidate, adopted, script)}
    lost = frozenset().union(*(adopted[name].gives for name in replaced if name in adopted))
    gained = frozenset().union(*(other.gives for name, other in adopted.items() if name not in replaced))
    facts = (loop_profile.facts - (lost - script.facts)) | gained
    return sorted(
        need for need in candidate.needs if (need[1:] in facts if need.startswith("!") else need not in facts)
    )


def join(candidate: Candidate, recipe: Recipe, replaced: Iterable[str]) -> Recipe:
    """The recipe with this change, and without its rivals."""
    for name in replaced:
        recipe = recipe.without(name)
    return recipe.plus(candidate.change)


def line(candidate: Candidate) -> tuple[Change, ...]:
    """The one-dimensional space that a candidate stands in, the recommended option included."""
    return candidate.space if candidate.change in candidate.space else (candidate.change, *candidate.space)


# Lines of options


WON = ("faster", "smaller")
LOST = ("slower", "larger", "failed")


class Climb:
    """Options to race, one after the other; the word of each is recorded before the next is asked for."""

    def __init__(self, line: tuple[Change, ...], start: Change, limit: int = 6) -> None:
        self.line, self.limit = line, limit  # options in order; races at most
        self._start = line.index(start)
        self._words: dict[int, str] = {}

    def __iter__(self) -> Iterator[Change]:
        while len(self._words) < self.limit:
            at = self._next()
            if at is None:
                return
            yield self.line[at]
            # Without a record it could not be raced, so nothing is known of what lies behind it.
            self._words.setdefault(at, "unclear")

    def record(self, change: Change, word: RungWord, *, kept: bool) -> None:
        """Take the word of an option; one that won but was not kept (its gate failed) counts as lost."""
        self._words[self.line.index(change)] = "won" if kept else ("slower" if word in WON else word)

    def _next(self) -> int | None:
        if not self._words:
            return self._start
        start = self._words[self._start]
        if start == "won":
            up = self._beyond(+1)
            # Downwards only when nothing above has won: behind a knee there is no second one.
            is_behind_knee = up is None and self._words.get(self._start + 1) == "won"
            return up if up is not None or is_behind_knee else self._beyond(-1)
        # The recommended option did not win: one look at what is less, and at more unless more hurts.
        below, above = self._start - 1, self._start + 1
        if start not in LOST and above < len(self.line) and above not in self._words:
            return above
        if self._words.get(above) == "won":
            return self._beyond(+1)
        if below >= 0 and below not in self._words:
            return below
        return self._beyond(-1) if self._words.get(below) == "won" else None

    def _beyond(self, direction: int) -> int | None:
        at = self._start + direction
        while self._words.get(at) == "won":
            at += direction
        return at if 0 <= at < len(self.line) and at not in self._words else None
