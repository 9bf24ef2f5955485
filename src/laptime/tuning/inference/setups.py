"""How many instances, threads and items in a call: setups, each measured as long as it may be the best.

Which setup is best cannot be climbed to: threads, instances and batch act on each other. So all of them are
visited in rounds, in random order, and leave when they cannot win any more (successive elimination,
Even-Dar, Mannor & Mansour 2006): a limit is broken for sure, or the figure is worse for sure than that of a
setup that keeps the limits. The chance of error is shared by setups and looks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean

import numpy as np

from laptime.analysis import shifting_level
from laptime.analysis.paired import Effect, from_few_rounds
from laptime.analysis.promises import Promise
from laptime.analysis.quantiles import Floats, effective_size, quantile, samples_needed
from laptime.analysis.summary import QUANTILES
from laptime.experiment.turns import orders
from laptime.kit.units import show
from laptime.launch.instances import deal_cpus
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Quantity
from laptime.records.tuning import GateCheck
from laptime.tuning.gates.invariants import report, word
from laptime.tuning.optimization import Change, Recipe
from laptime.verbs.bench.variants import usable

ALPHA = 0.05  # chance that the best one leaves, over all setups and rounds
ROUNDS = 100  # visits of a setup at most
FEWEST = 3  # visits before one leaves for its figure
FAR, FAR_NOISE = math.log(1.25), 6.0
"""Log of the figure, and standard deviations of a visit, by which one leaves after two visits: its best is
so far behind the worst of another one."""
RACED = 8  # instances of a side of a race at most: both sides load at once
ALIKE = 0.02  # setups that are certainly within this share of each other need no more rounds


@dataclass(frozen=True, order=True)
class Setup:
    """So many processes at once, threads of each, items in each call. No threads: the runtime's choice."""

    instances: int = 1
    threads: int = 0
    batch: int = 1


@dataclass(frozen=True)
class Visit:
    """The calls of a setup in a second or so."""

    seconds: Sequence[float]  # of each call, of all instances
    rate: float  # items per second, of all
    peak: int  # bytes, of all
    joules: float | None = None  # an item; None if no meter gave a reading


@dataclass
class Seen:
    """All visits of a setup, and why it left; "" while it has not."""

    seconds: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)
    peak: int = 0
    left: str = ""
    _checked: tuple[int, list[GateCheck]] = field(default=(-1, []), repr=False)

    def add(self, visit: Visit) -> None:
        """One more."""
        self.seconds.extend(visit.seconds)
        self.rates.append(visit.rate)
        self.joules += [visit.joules] if visit.joules is not None else []
        self.peak = max(self.peak, visit.peak)

    def checks(self, limits: Limits) -> list[GateCheck]:
        """Whether the limits are kept."""
        if self._checked[0] != len(self.seconds):
            self._checked = len(self.seconds), limits.checks(self.seconds, self.peak)
        return self._checked[1]


Cost = Callable[[Setup], float]  # what an item per second is divided by: 1 for throughput, CPUs for cost


def cost_of(goal: str, cpus: int) -> Cost:
    """CPUs that a setup takes, if cost is the goal; a runtime that chooses its threads takes them all."""
    if goal != "cost":
        return lambda setup: 1.0
    return lambda setup: float(setup.instances * setup.threads or cpus)


def of_race(cpus: int, instances: Iterable[int], batch: int) -> Setup:
    """Return the setup of both sides of a race for throughput: as many instances as there may be.

    One thread waits for no other, so this is the best setup of most models; which it is, is measured later.
    """
    number = max((instance for instance in instances if instance <= min(cpus, RACED)), default=1)
    return Setup(number, cpus // number, batch) if number > 1 else Setup(batch=batch)


def with_threads(recipe: Recipe, threads: int) -> Recipe:
    """A recipe whose calls run in so many threads; 0 leaves it as it is."""
    return recipe.without("threads").plus(Change("threads", {"value": threads})) if threads else recipe


def cpus_of(setup: Setup) -> list[list[int]]:
    """CPUs of each instance; [[]], which pins nothing, if the runtime chooses its threads."""
    if not setup.threads:
        return [[] for _ in range(setup.instances)]
    return deal_cpus(setup.instances, setup.threads, usable())


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4 ... as far as `most`, at least 1, goes."""
    return [2**power for power in range(most.bit_length())]


def table(cpus: int, instances: Iterable[int], batches: Iterable[int]) -> list[Setup]:
    """All setups that so many CPUs have room for; threads in powers of two, and as many as there are."""
    return sorted(
        Setup(number, threads, batch)
        for number in set(instances)
        for threads in {*powers_of_two(cpus), max(1, cpus // number)}
        for batch in set(batches)
        if number * threads <= cpus
    )


def choose(
    setups: Sequence[Setup],
    visit: Callable[[Setup], Visit | None],
    *,
    limits: Limits,
    noise: float,
    is_over: Callable[[], bool],
    cost: Cost = lambda setup: 1.0,
    seed: int = 0,
) -> tuple[Setup | None, dict[Setup, Seen]]:
    """The setup of the best figure among those that keep the limits, and what was seen of all.
    setups: at least one. visit: measures one for a second or so; None: it does not run. noise: standard
    deviation of a visit, as a share. is_over: no time is left. Returns none if none runs. If none keeps
    the limits, the one that comes nearest."""
    seen = {setup: Seen() for setup in setups}
    alpha = ALPHA / (len(setups) * ROUNDS)
    for order in islice(orders(setups, seed), ROUNDS):
        for setup in order:
            if seen[setup].left:
                continue
            if is_over() and all(each.rates or each.left for each in seen.values()):
                return _best(seen, limits, cost), seen
            made = visit(setup)
            if made is None:
                seen[setup].left = "it does not run"
            else:
                seen[setup].add(made)
        _leave(seen, limits, cost, noise, alpha)
        if _is_decided(seen, limits, cost, noise):
            break
    return _best(seen, limits, cost), seen


def _effect(setup: Setup, seen: Seen, cost: Cost, noise: float) -> Effect:
    logs = [math.log(cost(setup) / rate) for rate in seen.rates]
    return from_few_rounds(logs, range(len(logs)), noise)


def _leave(seen: dict[Setup, Seen], limits: Limits, cost: Cost, noise: float, alpha: float) -> None:
    """Mark the setups that cannot be the best one any more."""
    running = {setup: each for setup, each in seen.items() if not each.left}
    words = {setup: word(each.checks(limits)) for setup, each in running.items()}
    if any(said is not BROKEN for said in words.values()):
        for setup, said in words.items():
            if said is BROKEN:
                running.pop(setup).left = "it breaks a limit"
    logs = {
        setup: [math.log(rate / cost(setup)) for rate in each.rates]
        for setup, each in running.items()
        if len(each.rates) >= 2
    }
    bar = max((min(made) for setup, made in logs.items() if words[setup] is KEPT), default=-math.inf)
    for setup, made in logs.items():
        if max(made) < bar - max(FAR, FAR_NOISE * noise):
            running.pop(setup).left = "another one is far better"
    long = {setup: each for setup, each in running.items() if len(each.rates) >= FEWEST}
    effects = {setup: _effect(setup, each, cost, noise) for setup, each in long.items()}
    ends = [effect.upper(alpha) for setup, effect in effects.items() if words[setup] is KEPT]
    for setup, effect in effects.items():
        if ends and effect.lower(alpha) > min(ends):
            running[setup].left = "another one is better"


def _is_decided(seen: dict[Setup, Seen], limits: Limits, cost: Cost, noise: float) -> bool:
    """One is left, or those that are left are alike; whether they keep the limits is known of all."""
    running = {setup: each for setup, each in seen.items() if not each.left}
    if any(word(each.checks(limits)) is UNDECIDED for each in running.values()):
        return False
    if len(running) < 2:
        return True
    if min(len(each.rates) for each in running.values()) < FEWEST:
        return False
    effects = [_effect(setup, each, cost, noise) for setup, each in running.items()]
    return max(effect.upper(ALPHA) for effect in effects) - min(each.lower(ALPHA) for each in effects) < ALIKE


def _best(seen: dict[Setup, Seen], limits: Limits, cost: Cost) -> Setup | None:
    ran = {setup: each for setup, each in seen.items() if each.rates}
    words = {setup: word(each.checks(limits)) for setup, each in ran.items()}
    for wanted in (KEPT, UNDECIDED):
        if some := [setup for setup in ran if words[setup] == wanted]:
            logs = {setup: fmean(map(math.log, ran[setup].rates)) for setup in some}
            return min(some, key=lambda setup: math.log(cost(setup)) - logs[setup])  # cost of an item
    return min(ran, key=lambda setup: distance(ran[setup].checks(limits)), default=None)


# What a model has to keep: `--slo 20ms@p99`, `--max-memory 2GB`. An SLO is judged by the interval of the
# percentile, from order statistics (`analysis.quantiles`). Calls of a millisecond follow the level of their
# process: thousands are worth few independent ones, and get the wider interval of `analysis.shifting_level`.
# Calls are made one after the other: how long they wait for each other under load is another question
# (`laptime load`). Memory is the largest resident set of a process that has loaded the folder and calls it,
# interpreter and libraries included; it has no interval.


@dataclass(frozen=True)
class Limits:
    """The limits that must be kept."""

    slo: Promise | None = None  # seconds at a quantile of the calls; None: none
    memory: int | None = None  # bytes; None: no limit

    def __bool__(self) -> bool:
        return self.slo is not None or self.memory is not None

    @property
    def calls(self) -> int:
        """Independent calls that the interval of the SLO's quantile needs at least."""
        return samples_needed(QUANTILES[self.slo.quantile]) if self.slo else 0

    def checks(self, seconds: Sequence[float], peak: int) -> list[GateCheck]:
        """Whether calls that took so many seconds, in a process of this peak, keep them."""
        made = [] if self.slo is None else [_slo(self.slo, np.array(seconds))]
        if self.memory is not None:
            outcome = Quantity(peak, unit="B", exact=True).judge(self.memory)
            side = "within" if outcome is KEPT else "above"
            text = f"its process has {show(peak, 'B')} at most, {side} {show(self.memory, 'B')}"
            made.append(report("memory", outcome, text, float(peak), float(self.memory)))
        return made


def distance(checks: Sequence[GateCheck]) -> float:
    """Return the ratio by which the farthest limit is exceeded; 0 if all are kept, infinite if unknown."""
    ratios = [
        check.value / check.limit if check.value is not None and check.limit else float("inf")
        for check in checks
        if check.outcome is not KEPT
    ]
    return max(ratios, default=0.0)


def _slo(slo: Promise, seconds: Floats) -> GateCheck:
    q, limit = QUANTILES[slo.quantile], show(slo.limit, "s")
    ends = shifting_level.interval(seconds, q)
    if ends is None:
        needed, timed = samples_needed(q), len(seconds)
        text = f"{slo.quantile} needs {needed} independent calls, {timed} were timed"
        if timed >= needed:
            text += f", which are worth {effective_size(seconds, q):.0f}"
        return report("slo", UNDECIDED, text, None, slo.limit)
    found = Quantity.of(quantile(seconds, q), ends, len(seconds), "s")
    outcome = found.judge(slo.limit)
    said = {KEPT: f"within {limit}", BROKEN: f"above {limit}", UNDECIDED: f"{limit} lies in between"}
    text = f"{slo.quantile} of {len(seconds):,} calls {found.estimate}, {said[outcome]}"
    return report("slo", outcome, text, found.high, slo.limit)
