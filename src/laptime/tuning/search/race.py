"""A race: two recipes against each other, round by round, until one of these words can be said.

faster    the whole interval of the speedup is above 1 + margin
slower    the whole interval is below 1 - margin
same      the whole interval is within the margin
unclear   none of these, and there are no rounds, no time or no hope left

A race looks at its rounds a fixed number of times. The chance of error is spent in equal parts over the
looks, and added up (a union bound, so it holds however the looks depend on each other); a race of
`--certify` gets its part of the session's. The margin is a safety of its own: a change that does nothing has
to be rounds beyond it. Two short cuts save rounds: what loses clearly in both of its first two rounds is not
run again, and what gains hugely in every round of the first look is believed at once. What a race came to
stands in a rung of the ladder."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from statistics import median_high
from typing import cast

from msgspec import structs

from laptime.analysis import paired
from laptime.analysis.paired import MARGIN, Effect, from_few_rounds
from laptime.records.tuning import Gate, Numerics, Rung, RungWord
from laptime.tuning.loop_profile import UNKNOWN_NOISE
from laptime.tuning.search.evaluator import Candidate, Round, TrialFailed

LOOKS = (4, 6, 9, 12)
LONGEST = (4, 6, 9, 12, 18)
"""The usual looks if there is time; twice as many rounds are taken on a noisy machine."""
FAST_ALPHA = 0.05
"""One-sided chance of error of a race in fast mode; the margin and leave-one-out come on top of it."""
CERTIFIED_ALPHA = 0.05  # one-sided chance of error of a whole session with --certify
LEAST_ALPHA = 1e-6  # of one look, however many races share what is left
INTERVAL_ALPHA = 0.025  # share of an ordinary 95 % interval's error on one side
HUGE = math.log(1.15)
HOPELESS = math.log(1.25)
ENORMOUS = math.log(1.5)
BEYOND_NOISE = 3.0  # both short cuts also ask for this many standard deviations of a round, in every round
LOUD = 0.06  # standard deviation of a round from which two dozen rounds are needed to see a few percent
PEAK_NOISE = 0.005  # standard deviation of the ratio of two peaks, which hardly scatter
UNUSABLE = 3  # rounds without a value (a peak that is unknown) after which a race ends
HOPE = 1.25  # standard errors by which a race may still improve; with less hope of a word it is given up


@dataclass(frozen=True, kw_only=True)
class RaceTerms:
    """How a race is decided."""

    # numbers of rounds at which the rounds are looked at, rising; the last one ends the race
    looks: tuple[int, ...] = LOOKS
    alpha: float = FAST_ALPHA  # one-sided chance of error of the whole race
    margin: float = MARGIN  # share below which nothing is claimed
    noise: float = 0.0  # standard deviation of a round of the script against itself; 0: unknown
    goal: str = "throughput"  # throughput looks at time, memory at peaks
    # a gain by half in both of the first two rounds is believed: rounds cost starts of servers
    is_hasty: bool = False
    # says after each round whether the time for it is used up
    spent: Callable[[], bool] = field(default=lambda: False)

    @property
    def alpha_per_look(self) -> float:
        """Chance of error at one look; never a word that the 95 % interval beside it would contradict."""
        return max(LEAST_ALPHA, min(self.alpha / len(self.looks), INTERVAL_ALPHA))


@dataclass(frozen=True)
class RaceResult:
    """The result of a race."""

    word: RungWord  # faster, slower, same, unclear; for the goal memory smaller and larger
    # speedup, ci95: incumbent's time over the candidate's; None when there are fewer than two rounds
    speedup: float | None
    ci95: tuple[float, float] | None
    rounds: int  # how many
    ratios: list[float]  # time, candidate over incumbent, one a round
    reason: str  # why it ended so, with its numbers
    memory: float | None = None  # ratio of peaks, candidate over incumbent; None if unknown
    effect: Effect | None = None  # log ratio of what the goal looks at
    out_of_time: bool = False  # it ended before a look could decide it: no time, or no more rounds


def race(rounds: Iterator[Round], terms: RaceTerms) -> RaceResult:
    """Take rounds until a word can be said; closes the iterator. Raises TrialFailed: as the iterator does."""
    usable: list[Round] = []
    unusable = 0
    why = "there were no more than {n} rounds"
    try:
        for one in rounds:
            if _value(one, terms.goal) is None:
                unusable += 1
                if unusable == UNUSABLE:
                    why = f"{unusable} rounds could not be used, {{n}} could"
                    break
                continue
            usable.append(one)
            ended = _decide(usable, terms)
            if ended is not None:
                return _result(ended[0], usable, terms, ended[1])
            if terms.spent():
                raise TrialFailed("budget", "")
    except TrialFailed as failed:
        if failed.kind != "budget" or not usable:
            raise
        why = "the time was up after {n} rounds"
    finally:
        close = getattr(rounds, "close", None)
        if close is not None:
            close()
    # Their number may be no look: it takes the place of the next one, so the chance of error stays.
    enough = len(usable) >= min(3, terms.looks[0])
    said = word(_effect(usable, terms), terms) if enough else "unclear"
    return _result(said, usable, terms, why.format(n=len(usable)), out_of_time=True)


def _value(one: Round, goal: str) -> float | None:
    """Log ratio that the goal looks at; None if this round has none."""
    ratio = one.memory if goal == "memory" else one.ratio
    return math.log(ratio) if ratio is not None and ratio > 0 and math.isfinite(ratio) else None


def _logs(rounds: list[Round], goal: str) -> list[float]:
    return [value for one in rounds if (value := _value(one, goal)) is not None]


def _effect(rounds: list[Round], terms: RaceTerms, goal: str = "") -> Effect:
    noise = (terms.noise or UNKNOWN_NOISE) if (goal or terms.goal) == "throughput" else PEAK_NOISE
    return from_few_rounds(_logs(rounds, goal or terms.goal), [one.process for one in rounds], noise)


def _decide(rounds: list[Round], terms: RaceTerms) -> tuple[RungWord, str] | None:
    """The word and why, when this number of rounds is a look and something can be said."""
    n = len(rounds)
    if n == 2 or n == terms.looks[0]:
        short = _short_cut(rounds, terms)
        if short is not None:
            return short
    if n not in terms.looks:
        return None
    measured = _effect(rounds, terms)
    said = word(measured, terms)
    if said != "unclear":
        return said, ""
    if n == terms.looks[-1]:
        return "unclear", f"{n} rounds leave it open"
    hopeless = _hopeless(measured, terms)
    return ("unclear", hopeless) if hopeless else None


def _short_cut(rounds: list[Round], terms: RaceTerms) -> tuple[RungWord, str] | None:
    logs = _logs(rounds, terms.goal)
    beyond = BEYOND_NOISE * terms.noise if terms.goal == "throughput" else 0.0
    if min(logs) > max(HOPELESS, beyond):
        return _word_for_goal("slower", terms.goal), f"clearly, in each of {len(logs)} rounds"
    if len(rounds) >= max(4, terms.looks[0]) and max(logs) < -max(HUGE, beyond):
        return _word_for_goal("faster", terms.goal), f"by more than 15 % in each of {len(logs)} rounds"
    if terms.is_hasty and max(logs) < -max(ENORMOUS, 2 * beyond):
        return _word_for_goal("faster", terms.goal), f"by more than half in each of {len(logs)} rounds"
    return None


def _word_for_goal(said: RungWord, goal: str) -> RungWord:
    if goal == "throughput":
        return said
    names: dict[str, RungWord] = {"faster": "smaller", "slower": "larger"}
    return names.get(said, said)


def word(measured: Effect, terms: RaceTerms) -> RungWord:
    """The word that an effect allows at one look."""
    return _word_for_goal(paired.word(measured, terms.alpha_per_look, terms.margin), terms.goal)


def _hopeless(measured: Effect, terms: RaceTerms) -> str:
    """Say why more rounds cannot help; "" when they can."""
    edge = math.log1p(terms.margin)
    if measured.lower(0.05) > -edge:
        return f"a gain of {terms.margin:.0%} is outside its interval"
    last = terms.looks[-1]
    final = measured.error * math.sqrt(measured.rounds / last)
    hoped = measured.mean - HOPE * measured.error
    return f"{last} rounds would not make a gain of its size certain" if hoped + 2.0 * final > -edge else ""


def _result(
    said: RungWord, rounds: list[Round], terms: RaceTerms, reason: str, *, out_of_time: bool = False
) -> RaceResult:
    ratios = [one.ratio for one in rounds]
    peaks = [one.memory for one in rounds if one.memory is not None]
    memory = median_high(peaks) if peaks else None
    known = RaceResult(said, None, None, len(rounds), ratios, reason, memory, None, out_of_time)
    if len(rounds) < 2:
        return known
    time = _effect(rounds, terms, "throughput")
    effect = _effect(rounds, terms) if len(_logs(rounds, terms.goal)) == len(rounds) else None
    return replace(known, speedup=time.speedup, ci95=time.ci95, effect=effect)


def looks_for(
    cost: float, start: float, seconds: float, *, noise: float = 0.0, certify: bool = False
) -> tuple[int, ...]:
    """Return how often to look when a candidate may take so many seconds on the average.
    cost: seconds of a round. start: seconds before the first. seconds: for one candidate. Most races end at
    an early look, so the longest one may take twice as much. noise: standard deviation of a round; certify: a
    smaller chance of error. Both take more rounds."""
    rounds = (2 * seconds - start) / max(cost, 1e-9)
    loud = noise > LOUD
    long = [looks for wanted, looks in ((loud, (6, 12, 24, 48)), (loud or certify, (6, 12, 24))) if wanted]
    for looks in (*long, LONGEST, LOOKS, (4, 6, 9), (4, 6)):
        if looks[-1] <= rounds:
            return looks
    return (3, 5)


# Rungs of the ladder


def make_rung(candidate: Candidate) -> Rung:
    """The rung of a candidate before it is tried."""
    return Rung(
        name=candidate.change.name,
        label=str(candidate.change),
        title=candidate.title,
        options=candidate.change.options,
        numerics=cast(Numerics, candidate.numerics),
        bound=candidate.bound,
    )


def race_summary(result: RaceResult) -> str:
    """The numbers of a race in words."""
    if result.speedup is None or result.ci95 is None:
        return result.reason or "no rounds"
    parts = [f"{result.speedup:.3g}x [{result.ci95[0]:.3g}, {result.ci95[1]:.3g}] in {result.rounds} rounds"]
    if result.word in ("smaller", "larger") and result.memory:
        parts.insert(0, f"{result.memory:.3g} times the memory")
    if result.reason:
        parts.append(result.reason)
    return ", ".join(parts)


def add_gate(rung: Rung, gate: Gate) -> Rung:
    """The rung with its gate; it is kept when the gate passed, and only then."""
    if gate.word == "passed":
        return structs.replace(rung, gate=gate, kept=True)
    why = gate.reason or "nothing could be compared"
    words = {"failed": "its gate failed", "undecided": "its gate could not decide"}
    text = f"{rung.reason}; not kept, {words.get(gate.word, 'it was not gated')}: {why}"
    return structs.replace(rung, gate=gate, kept=False, reason=text)
