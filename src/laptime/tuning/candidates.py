"""Which changes of the catalogue are candidates for a loop profile, and why the others are not."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from laptime.experiment.turns import OF_A_RACE
from laptime.kit import registry
from laptime.tuning import optimization
from laptime.tuning.loop_profile import LoopProfile, unmet_need
from laptime.tuning.optimization import Change, Optimization, Recipe
from laptime.tuning.search.evaluator import Candidate, CandidateSet
from laptime.tuning.search.race import LONGEST
from laptime.tuning.search.ranking import detectable, expect_saving

DEFAULT = frozenset({"exact", "reassociated", "random", "precision"})
STRICT = frozenset({"exact", "reassociated"})
LEAST = 0.02  # share of a step that a suspect could save at least
COMPILING = 60.0  # seconds that torch.compile of a training step is expected to take before it was measured


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The changes that the user allows."""

    allow: tuple[str, ...] = ()  # classes beyond the default ones
    strict: bool = False  # only exact and reassociated
    # only, skip: names
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()  # files with further optimizations
    goal: str = "throughput"  # throughput or memory

    @property
    def classes(self) -> frozenset[str]:
        """Numerics classes that may be tried."""
        return (STRICT if self.strict else DEFAULT) | set(self.allow)

    def names(self) -> list[str]:
        """Every name of the catalogue, and the extra files."""
        return [*registry.names("optimizations"), *self.extra]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds that the parts of a trial take."""

    start: float = 10.0  # from the start of a process to its first timed step
    block: float = 2.0  # the timed steps of one block
    flip: float = 0.0  # the steps that do not count after a switch of arms
    compiling: float = COMPILING  # torch.compile; a guess until it was measured
    rounds: int = OF_A_RACE  # of a race, in a pair of processes


def find_candidates(loop_profile: LoopProfile, recipe: Recipe, choice: Choice, costs: Costs) -> CandidateSet:
    """Everything that could be tried on top of a recipe, and why the rest could not."""
    with_facts = _with_facts_of(recipe, loop_profile)
    known = {name: optimization.load(name) for name in choice.names()}
    # A fact that another change would give counts as held: the search takes them in an order that works.
    givable: frozenset[str] = frozenset()
    for name, own in known.items():
        if not find_veto(name, choice.only, choice.skip) and name not in recipe.names:
            givable |= own.given_facts
    candidates: list[Candidate] = []
    ruled_out: dict[str, str] = {}
    for name, own in known.items():
        # A kept change must not stand in the way of its own other options.
        given_by_itself = own.given_facts if name in recipe.names else frozenset()
        facts = (with_facts.facts | (own.needs & givable - own.given_facts)) - given_by_itself
        why = _why_not(own, name, facts, choice)
        candidate = why or _candidate(name, own, with_facts, recipe, choice, costs)
        if isinstance(candidate, str):
            ruled_out[name] = candidate
        else:
            candidates.append(candidate)
    return CandidateSet(tuple(candidates), ruled_out)


def suggest(loop_profile: LoopProfile, choice: Choice) -> list[Change]:
    """Changes that are only ever suggested, never applied: their `edit` shows how.

    Whose bound is below what a race could show on this machine is not worth a line of anybody's source."""
    changes = []
    visible = loop_profile.step * max(LEAST, detectable(loop_profile.noise, LONGEST[-1]))
    for name in choice.names():
        own = optimization.load(name)
        if not own.suggests or find_veto(name, choice.only, choice.skip):
            continue
        if not unmet_need(own.needs, loop_profile.facts):
            changes += [
                Change(name, options)
                for options in own.offer(loop_profile)[:1]
                if own.bound(loop_profile, options) >= visible
            ]
    return changes


def suspects(loop_profile: LoopProfile, recipe: Recipe, choice: Choice) -> list[tuple[Candidate, bool]]:
    """Changes that may save most of a step, the largest saving first, and whether each is only suggested.

    Races have another order: a cheap answer about a small gain may come before."""
    usable = find_candidates(loop_profile, recipe, choice, Costs()).usable
    candidates = [(candidate, False) for candidate in usable]
    with_facts = _with_facts_of(recipe, loop_profile)
    for change in suggest(loop_profile, choice):
        own = optimization.load(change.name)
        candidate = _candidate(change.name, own, with_facts, recipe, choice, Costs())
        if not isinstance(candidate, str):
            candidates.append((candidate, True))
    least = LEAST * loop_profile.step
    likely = [row for row in candidates if row[0].bound >= least and row[0].bound > 0]
    return sorted(likely, key=lambda row: (-expect_saving(row[0]), str(row[0].change)))


def facts_of(recipe: Recipe) -> frozenset[str]:
    """Facts that the changes of a recipe give."""
    return frozenset().union(*(optimization.load(name).given_facts for name in recipe.names))


def _with_facts_of(recipe: Recipe, loop_profile: LoopProfile) -> LoopProfile:
    return replace(loop_profile, facts=loop_profile.facts | facts_of(recipe))


def numerics_of(recipe: Recipe, loop_profile: LoopProfile) -> str:
    """The most far-reaching class of a recipe's changes; exact for none."""
    with_facts = _with_facts_of(recipe, loop_profile)
    return optimization.farthest(
        optimization.load(change.name).numerics_in(with_facts, change.options) for change in recipe
    )


def _why_not(own: Optimization, name: str, facts: frozenset[str], choice: Choice) -> str:
    """Say why a name is not even a candidate; "" when it may be one."""
    if left := find_veto(name, choice.only, choice.skip):
        return left
    if own.suggests:
        return "only ever suggested, never applied"
    if own.goal == "memory" and choice.goal != "memory":
        return "saves memory, not time: --goal memory"
    return unmet_need(own.needs, facts)


def find_veto(name: str, only: Collection[str], skip: Collection[str]) -> str:
    """Why the user does not want a change tried; "" if it may be. No `only` means all, the control always."""
    if name in skip:
        return "left out by --skip"
    return "left out by --only" if only and name != "identity" and name not in only else ""


def _candidate(
    name: str, own: Optimization, loop_profile: LoopProfile, recipe: Recipe, choice: Choice, costs: Costs
) -> Candidate | str:
    """The candidate, or why there is none."""
    kept = [change.options for change in recipe if change.name == name]
    proposed = [options for options in own.offer(loop_profile) if options not in kept]
    if kept and not proposed:
        return "kept already"
    if not proposed:
        return own.why_not(loop_profile) or "cannot help this script"
    classes = [own.numerics_in(loop_profile, options) for options in proposed]
    allowed = [
        options for options, numerics in zip(proposed, classes, strict=True) if numerics in choice.classes
    ]
    if not allowed:
        wanted = "--allow algorithm" if classes[0] == "algorithm" else "without --strict"
        return f"its class is {classes[0]}: {wanted}"
    changes = [Change(name, options) for options in allowed]
    # Beside a change that compiles, whatever another one does to the graph is compiled, too.
    is_compiled = any(optimization.load(one).compiles for one in (name, *recipe.names))
    compiles = costs.compiling if is_compiled else 0.0
    return Candidate(
        change=changes[0],
        title=own.title,
        numerics=own.numerics_in(loop_profile, allowed[0]),
        bound=max(own.bound(loop_profile, options) for options in allowed),
        cost=2 * (costs.block + costs.flip + (0.0 if own.live else costs.start / costs.rounds)),
        start=costs.start + compiles if own.live else compiles,
        prior=own.prior,
        space=_line(changes),
        needs=own.needs,
        gives=own.given_facts,
        conflicts=own.conflicts,
        risky=own.risky,
    )


def _line(changes: list[Change]) -> tuple[Change, ...]:
    """The space of options in the order of their values, the recommended one among them; else as proposed."""
    values = [change.options.get("value") for change in changes]
    if len(changes) > 1 and all(type(value) in (int, float) for value in values):
        return tuple(sorted(changes, key=lambda change: float(change.options["value"])))
    return tuple(changes[1:])
