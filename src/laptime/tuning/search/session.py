"""What a search knows while it runs, and one attempt: race, gate, keep or drop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

from msgspec import structs

from laptime.analysis.paired import MARGIN, spread
from laptime.records.tuning import Gate, Numerics, Rung
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate, Evaluator, Offered, TrialFailed
from laptime.tuning.search.race import (
    CERTIFIED_ALPHA,
    FAST_ALPHA,
    RaceResult,
    Terms,
    looks_for,
    race,
)
from laptime.tuning.search.rules import Rules
from laptime.tuning.search.space import LOST, WON

LEAST_ROUNDS = 5
"""Rounds that leave-one-out takes for a change, about: most are decided at the first look."""

CONTROLLED = 6
"""Rounds of the control, where the time allows it: below, it says how much rounds scatter and no more."""
CONTROL_LOOKS = (6, 12, 24, 48)
"""Of the control, as far as its share of the time goes."""
CONTROL_SHARE = 0.08
"""Of the budget, for the control."""
COSTLY = 0.03
"""Share of the budget from which a diagnosis is not made where it cannot tell anything new."""
WORTH = 12
"""Rounds by which a candidate's largest gain must be visible to count among those that share the time."""

WIDEST = 0.1
"""Margin above which nothing is gained by widening it: the machine cannot tell, and the control says so."""


@dataclass
class Tried:
    """How a change was raced.

    Attributes:
        share: of the step that it could save then. bound: the bottleneck of that time; waiting: share of the
            step that was spent on data, behind which everything else may have been hidden.
        rivals: kept changes that it would have replaced. final: that was the last word.
    """

    share: float
    bound: str
    waiting: float
    rivals: frozenset[str]
    final: bool


@dataclass
class Session:
    """State of a search.

    Attributes:
        recipe: the incumbent. kept: candidates of its changes, by name.
        script: the loop profile of the script as it is; loop_profile: under the incumbent.
        offers: candidates by change, of the newest offer; known: the last candidate seen of a name.
        rungs: in order of trying. tried: by change.
        noise: standard deviation of a round; margin: in use; expected: races that --certify counts with.
        hurried: a race ended for lack of time, and was not decided.
        bundles: recipes that were raced with several changes at once.
    """

    evaluator: Evaluator
    rules: Rules
    heard: Callable[[Rung], None]
    trying: Callable[[Candidate], None]
    diagnosed: Callable[[Recipe, LoopProfile], None]
    recipe: Recipe = field(default_factory=Recipe)
    kept: dict[str, Candidate] = field(default_factory=dict)
    script: LoopProfile = field(default_factory=LoopProfile)
    loop_profile: LoopProfile = field(default_factory=LoopProfile)
    offers: dict[Change, Candidate] = field(default_factory=dict)
    known: dict[str, Candidate] = field(default_factory=dict)
    ruled_out: dict[str, str] = field(default_factory=dict)
    rungs: list[Rung] = field(default_factory=list)
    tried: dict[Change, Tried] = field(default_factory=dict)
    control: Rung | None = None
    noise: float = 0.0
    margin: float = MARGIN
    expected: int = 1
    races: int = 0
    hurried: bool = False
    bundles: set[Recipe] = field(default_factory=set)

    def begin(self) -> None:
        """Diagnose the script as it is.

        Raises:
            TrialFailed: it does not run.
        """
        self.margin = self.rules.margin
        self.script = self.loop_profile = self.evaluator.diagnose(self.recipe)
        self.noise = self.script.noise
        self.diagnosed(self.recipe, self.script)
        self._offered()
        lines = [len(ranking.line(each)) for each in self.offers.values() if not is_control(each)]
        self.expected = max(1, sum(min(3, length) for length in lines))

    def again(self) -> None:
        """Diagnose the incumbent, where that can tell something new; see what is offered on top of it."""
        if self.script.seconds > COSTLY * self.rules.budget and ranking.has_one_bottleneck(self.loop_profile):
            self._offered()
            return
        try:
            found = self.evaluator.diagnose(self.recipe)
        except TrialFailed:
            return
        self.loop_profile = found
        self.diagnosed(self.recipe, found)
        self._offered()

    def _offered(self) -> None:
        offered: Offered = self.evaluator.offered(self.loop_profile, self.recipe)
        new = {each.change: each for each in offered.candidates}
        offered_names = {change.name for change in new}
        # Under the incumbent a rival of a kept change may have nothing to offer; it is still owed its race.
        owed = {
            change: each
            for change, each in self.offers.items()
            if change not in self.tried and change.name not in offered_names
            if ranking.rivals(each, self.kept, self.script)
        }
        self.offers = {**owed, **new}
        self.known.update({each.change.name: each for each in self.offers.values()})
        self.ruled_out.update(offered.ruled_out)
        for change in self.offers:
            self.ruled_out.pop(change.name, None)

    @property
    def leave_until(self) -> float:
        """Seconds of the session after which leave-one-out ends."""
        return self.rules.budget * (1 - self.rules.reserve(self.loop_profile.step))

    @property
    def try_until(self) -> float:
        """Seconds of the session after which no new change is tried: what is kept has to be left out, too."""
        rules = self.rules
        least = sum(each.start + LEAST_ROUNDS * each.cost for each in self.kept.values())
        return self.leave_until - min(least, rules.leave_out * rules.budget)

    # One attempt

    def terms(self, candidate: Candidate, until: float, waiting: int | None = None) -> Terms:
        """How a race of this candidate is decided, with the time that is left for it.

        Args:
            waiting: races that share the time until then; None: as many as candidates are untried.
        """
        if is_control(candidate):
            affordable = int(CONTROL_SHARE * self.rules.budget / max(candidate.cost, 1e-9))
            looks = tuple(n for n in CONTROL_LOOKS if n <= affordable) or (max(3, affordable),)
            end = self.evaluator.elapsed() + candidate.start + 2 * CONTROL_SHARE * self.rules.budget
            return Terms(
                looks=looks,
                margin=self.margin,
                noise=self.noise,
                goal=self.rules.goal,
                spent=lambda: self.evaluator.elapsed() > end,
            )
        if waiting is None:
            waiting = self._sharing()
        left = max(0.0, until - self.evaluator.elapsed()) / max(1, waiting)
        looks = self.rules.looks or looks_for(
            candidate.cost, candidate.start, left, noise=self.noise, certify=self.rules.certify
        )
        return Terms(
            looks=looks,
            alpha=self._alpha(),
            margin=self.margin,
            noise=self.noise,
            goal=self.rules.goal,
            spent=lambda: self.evaluator.elapsed() > until,
        )

    def _sharing(self) -> int:
        """Names that may still be raced: what cannot show its gain here takes no time from the others."""
        least = ranking.detectable(self.noise, WORTH, margin=self.margin)
        return len(
            {
                change.name
                for change, each in self.offers.items()
                if change not in self.tried and ranking.share(each, self.loop_profile.step) >= least
            }
        )

    def _alpha(self) -> float:
        if not self.rules.certify:
            return FAST_ALPHA
        # The expected races share the session's alpha equally; one share is halved again and again among
        # those that come on top, so that the sum stays within it however many there are.
        part = CERTIFIED_ALPHA / (self.expected + 1)
        over = self.races - self.expected
        return part if over < 0 else part * 0.5 ** (over + 1)

    def attempt(self, candidate: Candidate) -> Rung:
        """Race it, gate it, keep it or not; the rung is recorded and told."""
        began = self.evaluator.elapsed()
        self.trying(candidate)
        out = ranking.rivals(candidate, self.kept, self.script)
        target = ranking.joined(candidate, self.recipe, out)
        terms = self.terms(candidate, self.try_until)
        self.races += not is_control(candidate)
        rung = self.rung(candidate)
        try:
            rounds = self.evaluator.race(self.recipe, target, fresh=self.rules.certify)
            result = race(rounds, terms)
            rung = self.raced(rung, result, out)
            self.hurried = self.hurried or (result.hurried and result.word == "unclear")
            if result.word in WON and not is_control(candidate):
                gate = self.evaluator.gate(self.recipe, target, candidate.numerics)
                rung = gated(rung, gate)
        except TrialFailed as failure:
            word = "not tried" if failure.kind == "budget" else "failed"
            rung = structs.replace(rung, verdict=word, kept=False, reason=_failed(failure))
        rung = structs.replace(rung, seconds=self.evaluator.elapsed() - began)
        if is_control(candidate):
            rung = self._controlled(rung)
        self._settle(candidate, rung, target, out)
        return rung

    def rung(self, candidate: Candidate) -> Rung:
        """What is known of a candidate before it is tried."""
        return Rung(
            name=candidate.change.name,
            label=str(candidate.change),
            title=candidate.title,
            options=candidate.change.options,
            numerics=cast(Numerics, candidate.numerics),
            bound=candidate.bound,
        )

    def raced(self, rung: Rung, result: RaceResult, out: list[str]) -> Rung:
        """The rung with what its race came to; `out`: names of what it would replace."""
        step, speedup = self.loop_profile.step, result.speedup
        reason = sentence(result)
        return structs.replace(
            rung,
            verdict=result.word,
            speedup=speedup,
            ci95=result.ci95,
            rounds=result.rounds,
            ratios=result.ratios,
            memory=result.memory,
            step=step / speedup if speedup and step else None,
            throughput=self.loop_profile.batch / step * speedup if speedup and step else None,
            reason=f"in place of {', '.join(out)}: {reason}" if out else reason,
        )

    def _controlled(self, rung: Rung) -> Rung:
        """The script against itself: says how much the rounds scatter, and whether the margin holds."""
        self.calibrate(rung)
        if rung.verdict in WON or rung.verdict in LOST:
            note = f"control: the script against itself came out {rung.verdict}, {rung.reason}; "
            return structs.replace(rung, reason=f"{note}nothing below {self.margin:.1%} is claimed")
        return structs.replace(rung, reason=f"control, the script against itself: {rung.reason}")

    def calibrate(self, rung: Rung) -> None:
        """Noise from the control's rounds, and a wider margin when enough of them came out different.

        Its true effect is none: what its mean is away from that is noise, too, and a few rounds that lean
        to one side say that there is more of it, not that the method leans.
        """
        logs = [math.log(ratio) for ratio in rung.ratios]
        seen = math.hypot(spread(logs), sum(logs) / len(logs)) if logs else 0.0
        if seen and self.rules.goal == "throughput":
            # The geometric mean: a spike among a few A/A rounds makes their deviation far too large.
            self.noise = math.sqrt(self.noise * seen) if self.noise else seen
        if rung.rounds >= CONTROLLED and (rung.verdict in WON or rung.verdict in LOST):
            ends = [abs(math.log(end)) for end in rung.ci95 or ()]
            self.margin = min(WIDEST, max([self.margin, *map(math.expm1, ends)]))

    def _settle(self, candidate: Candidate, rung: Rung, target: Recipe, out: list[str]) -> None:
        final = rung.kept or rung.verdict == "failed" or rung.verdict in WON
        self.mark(candidate, final=final)
        if is_control(candidate):
            self.control = rung
        # Told before what it replaces is told again: whoever is killed in between has the newer one.
        self.rungs.append(rung)
        self.heard(rung)
        if rung.kept:
            self.take(candidate, target, out, rung.speedup)

    def mark(self, candidate: Candidate, *, final: bool) -> None:
        """It was raced beside the present incumbent."""
        share = ranking.share(candidate, self.loop_profile.step)
        rivals = frozenset(ranking.rivals(candidate, self.kept, self.script))
        self.tried[candidate.change] = Tried(share, self.loop_profile.bound, self.waiting, rivals, final)

    @property
    def waiting(self) -> float:
        """Share of the step that the loop waits for data."""
        step = self.loop_profile.step
        return self.loop_profile.share("data") / step if step else 0.0

    def take(self, candidate: Candidate, target: Recipe, out: list[str], speedup: float | None) -> None:
        """Make it the incumbent; what it replaces is told."""
        for name in dict.fromkeys([*out, candidate.change.name]):
            if name in self.kept:
                self.kept.pop(name)
                self.revise(name, kept=False, reason=f"replaced by {candidate.change}", newest=False)
        if speedup:
            step = self.loop_profile.step / speedup
            self._claim(candidate, self.loop_profile.step - step)
            self.loop_profile = replace(self.loop_profile, step=step)
        self.recipe = target
        self.kept[candidate.change.name] = candidate

    def _claim(self, candidate: Candidate, saved: float) -> None:
        """What it has saved, a rival that takes its place has to save first: that much less is its bound."""
        for change, each in self.offers.items():
            if change not in self.tried and ranking.excludes(candidate, each):
                self.offers[change] = replace(each, bound=max(0.0, each.bound - max(0.0, saved)))

    def revise(
        self, name: str, *, kept: bool, reason: str, dropped: bool = False, newest: bool = True
    ) -> None:
        """Tell the kept rung of this name again, changed.

        Args:
            newest: False looks only at those before the last one.
        """
        for at in reversed(range(len(self.rungs) - (not newest))):
            rung = self.rungs[at]
            if rung.name == name and rung.kept:
                text = f"{rung.reason}; {reason}"
                self.rungs[at] = structs.replace(rung, kept=kept, dropped=dropped, reason=text)
                self.heard(self.rungs[at])
                return

    def again_told(self, label: str, reason: str) -> None:
        """Tell the newest rung of this label again, with more of a reason."""
        for at in reversed(range(len(self.rungs))):
            if self.rungs[at].label == label:
                rung = self.rungs[at]
                self.rungs[at] = structs.replace(rung, reason=f"{rung.reason}; {reason}")
                self.heard(self.rungs[at])
                return


def is_control(candidate: Candidate) -> bool:
    """Whether this is the change that changes nothing."""
    return candidate.change.name == ranking.CONTROL


def sentence(result: RaceResult) -> str:
    """A race in words, with its numbers."""
    if result.speedup is None or result.ci95 is None:
        return result.reason or "no rounds"
    parts = [f"{result.speedup:.3g}x [{result.ci95[0]:.3g}, {result.ci95[1]:.3g}] in {result.rounds} rounds"]
    if result.word in ("smaller", "larger") and result.memory:
        parts.insert(0, f"{result.memory:.3g} times the memory")
    if result.reason:
        parts.append(result.reason)
    return ", ".join(parts)


def _failed(failure: TrialFailed) -> str:
    return failure.why if failure.kind in ("budget", "refused") else f"{failure.kind}: {failure.why}"


def gated(rung: Rung, gate: Gate) -> Rung:
    """The rung with its gate's word; kept when that is `passed`, and only then."""
    if gate.word == "passed":
        return structs.replace(rung, gate=gate, kept=True)
    why = gate.reason or "nothing could be compared"
    words = {"failed": "its gate failed", "undecided": "its gate could not decide"}
    text = f"{rung.reason}; not kept, {words.get(gate.word, 'it was not gated')}: {why}"
    return structs.replace(rung, gate=gate, kept=False, reason=text)
