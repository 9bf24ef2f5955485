"""The state of a search, and one attempt in it: race a change, gate it, keep it or not."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from msgspec import structs

from laptime.analysis.paired import MARGIN, spread
from laptime.analysis.tuned import CONTROL
from laptime.records.plan import TODAY
from laptime.records.tuning import Rung
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate, Evaluator, TrialFailed
from laptime.tuning.search.race import (
    CERTIFIED_ALPHA,
    FAST_ALPHA,
    RaceResult,
    RaceTerms,
    add_gate,
    looks_for,
    make_rung,
    race,
    race_summary,
)
from laptime.tuning.search.ranking import LOST, WON
from laptime.tuning.search.settings import SearchSettings

LEAST_ROUNDS = 5  # rounds that leave-one-out takes for a change, about: most are decided at the first look
CONTROLLED = TODAY.control_rounds
"""Rounds of the control below which it tells how much rounds scatter, and nothing more."""
CONTROL_LOOKS = (6, 12, 24, 48)
FEW_OF_CONTROL = 3
"""Its rounds where less than the first look fits: they tell how much rounds scatter, and live in one pair of
processes. A fourth would take another one."""
CONTROL_SHARE = 0.08  # share of the budget for the control; it takes as many of its looks as fit
COSTLY = 0.03  # share of the budget from which a diagnosis is skipped when it cannot tell anything new
OBVIOUS = 1.5  # low end of a kept change's speedup from which no time is set aside to leave it out once more
WORTH = 12
"""Rounds by which a candidate's largest gain must show for the candidate to get a share of the time."""
HARMLESS = 0.97
"""Speedup, as estimated, below which a rejected change is not taken along, and not raced again."""
WIDEST = TODAY.widest_margin
"""Margin that is not widened any more: the machine cannot tell, and the control says so."""


@dataclass
class PastRace:
    """The circumstances of a change's last race."""

    share: float  # of the step that it could save then
    bound: str  # the bottleneck of that time
    waiting: float  # share of the step that was spent on data; other gains may have been hidden behind it
    rivals: frozenset[str]  # kept changes that it would have replaced
    final: bool  # it is not raced again
    unclear_after: int = 0  # rounds that it had at most and that left open whether it helps; 0: they did not


@dataclass
class SearchState:
    """The state of a search while it runs. For the listeners see `ladder.search`."""

    evaluator: Evaluator
    settings: SearchSettings
    on_rung: Callable[[Rung], None] = lambda rung: None
    on_race: Callable[[Candidate], None] = lambda candidate: None
    on_diagnosis: Callable[[Recipe, LoopProfile], None] = lambda recipe, loop_profile: None
    recipe: Recipe = field(default_factory=Recipe)  # the incumbent
    adopted: dict[str, Candidate] = field(default_factory=dict)  # candidates of its changes, by name
    script: LoopProfile = field(default_factory=LoopProfile)  # of the script as it is
    loop_profile: LoopProfile = field(default_factory=LoopProfile)  # under the incumbent
    candidates: dict[Change, Candidate] = field(default_factory=dict)  # of the newest diagnosis, by change
    newest: dict[str, Candidate] = field(default_factory=dict)  # the last candidate of each name
    ruled_out: dict[str, str] = field(default_factory=dict)  # names that are none, with the reason
    rungs: list[Rung] = field(default_factory=list)  # in the order of trying
    raced_before: dict[Change, PastRace] = field(default_factory=dict)
    noise: float = 0.0  # standard deviation of a round
    margin: float = MARGIN  # in use
    expected: int = 1  # races that --certify divides its error among
    races: int = 0  # so far
    undecided: str = ""  # which race ended before it could be decided, and why; "" if none did
    bundles: set[frozenset[str]] = field(default_factory=set)  # recipes that were raced, by their labels
    is_late: bool = False  # nothing was kept in its time: reserved time is spent on further changes
    is_bare: bool = False  # nor in that time: what is kept now is handed back without a measured gain

    def begin(self) -> None:
        """Diagnose the script as it is. Raises TrialFailed: it does not run."""
        self.margin = self.settings.margin
        self.script = self.loop_profile = self.evaluator.diagnose(self.recipe)
        self.noise = self.script.noise
        self.on_diagnosis(self.recipe, self.script)
        self._refresh_candidates()
        lines = [len(ranking.line(one)) for one in self.candidates.values() if not is_control(one)]
        self.expected = max(1, sum(min(3, length) for length in lines))

    def rediagnose(self) -> None:
        """Diagnose the incumbent if that can tell something new, and see what could be tried on top of it."""
        is_costly = self.script.seconds > COSTLY * self.settings.budget
        no_time = self.evaluator.elapsed() + self.script.seconds > self.leave_until
        if self.is_late or no_time or (is_costly and ranking.has_one_bottleneck(self.loop_profile)):
            self._refresh_candidates()
            return
        try:
            self.loop_profile = self.evaluator.diagnose(self.recipe)
        except TrialFailed:
            return
        self.on_diagnosis(self.recipe, self.loop_profile)
        self._refresh_candidates()

    def _refresh_candidates(self) -> None:
        proposed = self.evaluator.candidates(self.loop_profile, self.recipe)
        step = self.loop_profile.step
        ordered = (
            one if one.change.name in self.recipe.names else self.settings.in_order(one, step)
            for one in proposed.usable
        )
        new = {one.change: one for one in ordered}
        names = {change.name for change in new}
        # Under the incumbent a rival of a kept change may have nothing to propose; its race is still due.
        due = {
            change: one
            for change, one in self.candidates.items()
            if change not in self.raced_before and change.name not in names
            if ranking.rivals(one, self.adopted, self.script)
        }
        self.candidates = {**due, **new}
        self.newest.update({one.change.name: one for one in self.candidates.values()})
        self.ruled_out.update(proposed.ruled_out)
        for change in self.candidates:
            self.ruled_out.pop(change.name, None)

    @property
    def leave_until(self) -> float:
        """Seconds of the session after which leave-one-out ends."""
        is_late, is_bare = (each and not self.adopted for each in (self.is_late, self.is_bare))
        reserved = self.settings.reserve_now(self.loop_profile.step, is_late=is_late, is_bare=is_bare)
        return self.settings.budget * (1 - reserved)

    @property
    def try_until(self) -> float:
        """Seconds of the session after which no new change is tried: leave-one-out needs the rest."""
        settings = self.settings
        doubtful = [one for name, one in self.adopted.items() if self.low_end(name) <= OBVIOUS]
        least = sum(one.start + LEAST_ROUNDS * one.cost for one in doubtful)
        return self.leave_until - min(least, settings.leave_out * settings.budget)

    def low_end(self, name: str) -> float:
        """The low end of a kept change's speedup; 0 with --certify, which lets no race speak for another."""
        if self.settings.certify:
            return 0.0
        newest = next((rung for rung in reversed(self.rungs) if rung.kept and rung.name == name), None)
        return newest.ci95[0] if newest is not None and newest.ci95 is not None else 0.0

    # One attempt

    def terms(
        self, candidate: Candidate, until: float, waiting: int | None = None, among: int = 0
    ) -> RaceTerms:
        """How a race of this candidate is decided in the time that is left for it. until: seconds of the
        session. waiting: races that share the time until then; None: one for each candidate that was not
        raced yet. among: sets that share its chance of error."""
        if is_control(candidate):
            affordable = int(CONTROL_SHARE * self.settings.budget / max(candidate.cost, 1e-9))
            looks = tuple(n for n in CONTROL_LOOKS if n <= affordable) or (FEW_OF_CONTROL,)
            until = self.evaluator.elapsed() + candidate.start + 2 * CONTROL_SHARE * self.settings.budget
            alpha = FAST_ALPHA
        else:
            if waiting is None:
                least = ranking.detectable(self.noise, WORTH, margin=self.margin)
                waiting = len(
                    {
                        change.name
                        for change, one in self.candidates.items()
                        if change not in self.raced_before
                        and ranking.share(one, self.loop_profile.step) >= least
                    }
                )
            left = max(0.0, until - self.evaluator.elapsed()) / max(1, waiting)
            looks = self.settings.looks or looks_for(
                candidate.cost, candidate.start, left, noise=self.noise, certify=self.settings.certify
            )
            alpha = self._alpha() / max(1, among)
        return RaceTerms(
            looks=looks,
            alpha=alpha,
            margin=self.margin,
            noise=self.noise,
            goal=self.settings.goal,
            is_hasty=self.settings.depend,
            spent=lambda: self.evaluator.elapsed() > until,
        )

    def _alpha(self) -> float:
        if not self.settings.certify:
            return FAST_ALPHA
        # The expected races share the session's alpha equally; one share is halved again and again among
        # those that come on top, so that the sum stays within it however many there are.
        part = CERTIFIED_ALPHA / (self.expected + 1)
        over = self.races - self.expected
        return part if over < 0 else part * 0.5 ** (over + 1)

    def attempt(self, candidate: Candidate, among: int = 0) -> Rung:
        """Race it, gate it, keep it or not; the rung is recorded and reported. among: see `terms`."""
        began = self.evaluator.elapsed()
        self.on_race(candidate)
        replaced = ranking.rivals(candidate, self.adopted, self.script)
        target = ranking.join(candidate, self.recipe, replaced)
        terms = self.terms(candidate, self.try_until, among or None, among)
        self.races += not is_control(candidate)
        rung = make_rung(candidate)
        try:
            rung, result = self.race_and_gate(rung, target, terms, candidate, replaced)
            if result.out_of_time and result.word == "unclear":
                self.undecided = self.undecided or f"{rung.label}: {race_summary(result)}"
        except TrialFailed as failure:
            if failure.kind == "budget":
                self.undecided = self.undecided or f"{rung.label}: {failure.why}"
            word = "not tried" if failure.kind == "budget" else "failed"
            why = failure.why if failure.kind in ("budget", "refused") else f"{failure.kind}: {failure.why}"
            rung = structs.replace(rung, verdict=word, kept=False, reason=why)
        reason = f"{candidate.earlier}: {rung.reason}" if candidate.earlier else rung.reason
        rung = structs.replace(rung, seconds=self.evaluator.elapsed() - began, reason=reason)
        if is_control(candidate):
            rung = self._note_control(rung)
        is_final = rung.kept or rung.verdict == "failed" or rung.verdict in WON
        is_open = rung.verdict == "unclear" and (rung.speedup or 0.0) >= HARMLESS
        is_open = is_open and not (is_control(candidate) or self.settings.certify)
        self.mark_raced(candidate, final=is_final, unclear_after=terms.looks[-1] if is_open else 0)
        # Before what it replaces is reported again: a session that is killed in between has the newer one.
        self.report(rung)
        if rung.kept:
            self.adopt(candidate, target, replaced, rung.speedup)
        return rung

    def race_and_gate(
        self, rung: Rung, target: Recipe, terms: RaceTerms, candidate: Candidate, replaced: list[str]
    ) -> tuple[Rung, RaceResult]:
        """The rung with the race of a recipe against the incumbent and, if it won, with its gate.
        Raises TrialFailed: the recipe does not run."""
        self.bundles.add(target.labels)
        result = race(self.evaluator.race(self.recipe, target, fresh=self.settings.certify), terms)
        rung = self._add_race(rung, result, replaced)
        if result.word in WON and not is_control(candidate):
            try:
                rung = add_gate(rung, self.evaluator.gate(self.recipe, target, candidate.numerics))
            except TrialFailed as failure:
                if failure.kind == "budget":  # what its race has shown is worth knowing
                    raise TrialFailed("budget", f"{failure.why}; its race: {race_summary(result)}") from None
                raise
        return rung, result

    def _add_race(self, rung: Rung, result: RaceResult, replaced: list[str]) -> Rung:
        step, speedup = self.loop_profile.step, result.speedup
        reason = race_summary(result)
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
            reason=f"in place of {', '.join(replaced)}: {reason}" if replaced else reason,
        )

    def _note_control(self, rung: Rung) -> Rung:
        """The script against itself: says how much the rounds scatter, and whether the margin holds."""
        self.calibrate(rung)
        if rung.verdict in WON or rung.verdict in LOST:
            note = f"control: against itself it came out {rung.verdict}, {rung.reason}; "
            return structs.replace(rung, reason=f"{note}nothing below {self.margin:.1%} is claimed")
        return structs.replace(rung, reason=f"control, against itself: {rung.reason}")

    def calibrate(self, rung: Rung) -> None:
        """Take the noise from the control's rounds; widen the margin if enough of them came out different.

        The control's true effect is none, so its mean is noise, too. A few rounds that lean to one side say
        that there is more noise, not that the method leans."""
        logs = [math.log(ratio) for ratio in rung.ratios]
        observed = math.hypot(spread(logs), sum(logs) / len(logs)) if logs else 0.0
        if observed and self.settings.goal == "throughput":
            # The geometric mean: a spike among a few A/A rounds makes their deviation far too large.
            self.noise = math.sqrt(self.noise * observed) if self.noise else observed
        if rung.rounds >= CONTROLLED and (rung.verdict in WON or rung.verdict in LOST):
            ends = [abs(math.log(end)) for end in rung.ci95 or ()]
            self.margin = min(WIDEST, max([self.margin, *map(math.expm1, ends)]))

    def mark_raced(self, candidate: Candidate, *, final: bool, unclear_after: int = 0) -> None:
        """Remember that it was raced beside the present incumbent."""
        share = ranking.share(candidate, self.loop_profile.step)
        rivals = frozenset(ranking.rivals(candidate, self.adopted, self.script))
        past = PastRace(share, self.loop_profile.bound, self.waiting, rivals, final, unclear_after)
        self.raced_before[candidate.change] = past

    @property
    def waiting(self) -> float:
        """Share of the step that the loop waits for data."""
        step = self.loop_profile.step
        return self.loop_profile.share("data") / step if step else 0.0

    def adopt(self, candidate: Candidate, target: Recipe, replaced: list[str], speedup: float | None) -> None:
        """Make `target`, which has this candidate, the incumbent; report again what it replaces."""
        for name in dict.fromkeys([*replaced, candidate.change.name]):
            if name in self.adopted:
                self.adopted.pop(name)
                reason = f"replaced by {candidate.change}"
                self.revise(name, kept=False, replaced=True, reason=reason, newest=False)
        if speedup:
            step = self.loop_profile.step / speedup
            saved = max(0.0, self.loop_profile.step - step)
            # A rival that takes its place has to save first what it has saved: that much less is its bound.
            for change, one in self.candidates.items():
                if change not in self.raced_before and ranking.excludes(candidate, one):
                    self.candidates[change] = replace(one, bound=max(0.0, one.bound - saved))
            self.loop_profile = replace(self.loop_profile, step=step)
        self.recipe = target
        self.adopted[candidate.change.name] = candidate

    def report(self, rung: Rung) -> None:
        """A rung is decided."""
        self.rungs.append(rung)
        self.on_rung(rung)

    def revise(self, name: str, *, reason: str, newest: bool = True, **changes: bool) -> None:
        """Change the newest rung of this label, of a kept change with this name if there are changes.
        newest: False looks only at those before the last one. changes: kept, dropped or replaced."""
        for at in reversed(range(len(self.rungs) - (not newest))):
            rung = self.rungs[at]
            if (rung.name == name and rung.kept) if changes else rung.label == name:
                self.rungs[at] = structs.replace(rung, reason=f"{rung.reason}; {reason}", **changes)
                self.on_rung(self.rungs[at])
                return


def is_control(candidate: Candidate) -> bool:
    """Whether this is the change that changes nothing."""
    return candidate.change.name == CONTROL
