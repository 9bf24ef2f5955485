"""What the catalogue offers for a loop profile: candidates, and why the others are none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType

from laptime.kit import registry
from laptime.tuning import optimization
from laptime.tuning.loop_profile import LoopProfile, unmet_need
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import Candidate, Offered
from laptime.tuning.search.ranking import expected

DEFAULT = frozenset({"exact", "reassociated", "random", "precision"})
STRICT = frozenset({"exact", "reassociated"})
LEAST = 0.02
"""Share of a step that a suspect could save."""
COMPILING = 60.0
"""Seconds that torch.compile of a training step takes before anything is known; then what it took."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What the user lets us try.

    Attributes:
        allow: classes beyond the default ones. strict: only exact and reassociated.
        only, skip: names; extra: files with further optimizations.
        goal: throughput or memory.
    """

    allow: tuple[str, ...] = ()
    strict: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    goal: str = "throughput"

    @property
    def classes(self) -> frozenset[str]:
        """Numerics classes that may be tried."""
        return (STRICT if self.strict else DEFAULT) | set(self.allow)

    def names(self) -> list[str]:
        """Every name of the catalogue, and the extra files."""
        return [*registry.names("optimizations"), *self.extra]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What trials cost, in seconds.

    Attributes:
        start: from the start of a process to its first timed step.
        block: of the timed steps of one block. flip: of those that do not count after a switch of arms.
        compiling: of torch.compile, once it was seen.
    """

    start: float = 10.0
    block: float = 2.0
    flip: float = 0.0
    compiling: float = COMPILING


def offered(loop_profile: LoopProfile, recipe: Recipe, choice: Choice, costs: Costs) -> Offered:
    """Everything that could be tried on top of a recipe, and why the rest could not."""
    given = facts_of(recipe)
    known = replace(loop_profile, facts=loop_profile.facts | given)
    modules = {name: optimization.load(name) for name in choice.names()}
    # What another change would give may be waited for: the search takes them in an order that holds.
    givable: frozenset[str] = frozenset()
    for name, module in modules.items():
        if _is_chosen(name, choice) and name not in recipe.names:
            givable |= module.GIVES
    candidates: list[Candidate] = []
    ruled_out: dict[str, str] = {}
    for name, module in modules.items():
        # Its own facts hold because it is kept: other options of it are still offered.
        own = module.GIVES if name in recipe.names else frozenset()
        facts = (loop_profile.facts | given | givable_needs(module, givable)) - own
        why = _why_not(module, name, facts, choice)
        if why:
            ruled_out[name] = why
            continue
        made = _candidate(name, module, known, recipe, choice, costs)
        if isinstance(made, str):
            ruled_out[name] = made
        else:
            candidates.append(made)
    return Offered(tuple(candidates), ruled_out)


def suggested(loop_profile: LoopProfile, choice: Choice) -> list[Change]:
    """Changes that are only ever suggested, never applied: their `edit` shows how."""
    found = []
    for name in choice.names():
        module = optimization.load(name)
        if not module.SUGGESTS or not _is_chosen(name, choice):
            continue
        if not unmet_need(module.NEEDS, loop_profile.facts):
            found += [Change(name, options) for options in module.propose(loop_profile)[:1]]
    return found


def suspects(loop_profile: LoopProfile, recipe: Recipe, choice: Choice) -> list[tuple[Candidate, bool]]:
    """What may save most of a step, the most first, whatever a race of it costs; and whether it is
    suggested only.

    The order of races is another one: a cheap answer about a small gain may come before.
    """
    known = replace(loop_profile, facts=loop_profile.facts | facts_of(recipe))
    found = [(each, False) for each in offered(loop_profile, recipe, choice, Costs()).candidates]
    for change in suggested(loop_profile, choice):
        made = _candidate(change.name, optimization.load(change.name), known, recipe, choice, Costs())
        if not isinstance(made, str):
            found.append((made, True))
    likely = [each for each in found if each[0].bound >= LEAST * loop_profile.step and each[0].bound > 0]
    return sorted(likely, key=lambda each: (-expected(each[0]), str(each[0].change)))


def facts_of(recipe: Recipe) -> frozenset[str]:
    """What the changes of a recipe give."""
    return frozenset().union(*(optimization.load(name).GIVES for name in recipe.names))


def numerics_of(recipe: Recipe, loop_profile: LoopProfile) -> str:
    """The most far-reaching class of a recipe's changes; exact for none."""
    known = replace(loop_profile, facts=loop_profile.facts | facts_of(recipe))
    classes = [optimization.load(own.name).numerics(known, own.options) for own in recipe]
    return max(classes, key=optimization.NUMERICS.index, default="exact")


def givable_needs(module: ModuleType, givable: frozenset[str]) -> frozenset[str]:
    """Facts that a change needs and another one could give."""
    own: frozenset[str] = module.GIVES
    return frozenset(need for need in module.NEEDS if not need.startswith("!")) & (givable - own)


def _why_not(module: ModuleType, name: str, facts: frozenset[str], choice: Choice) -> str:
    """Why a name is not even a candidate; "" when it may be one."""
    if not _is_chosen(name, choice):
        return "left out by --only" if choice.only and name not in choice.only else "left out by --skip"
    if module.SUGGESTS:
        return "only ever suggested, never applied"
    if module.GOAL == "memory" and choice.goal != "memory":
        return "saves memory, not time: --goal memory"
    return unmet_need(module.NEEDS, facts)


def _is_chosen(name: str, choice: Choice) -> bool:
    if name == "identity":
        return name not in choice.skip
    return (not choice.only or name in choice.only) and name not in choice.skip


def _candidate(
    name: str, module: ModuleType, loop_profile: LoopProfile, recipe: Recipe, choice: Choice, costs: Costs
) -> Candidate | str:
    """The candidate, or why there is none."""
    kept = [change.options for change in recipe if change.name == name]
    proposed = [options for options in module.propose(loop_profile) if options not in kept]
    if kept and not proposed:
        return "kept already"
    if not proposed:
        return module.why_not(loop_profile) or "cannot help here"
    classes = [module.numerics(loop_profile, options) for options in proposed]
    allowed = [options for options, own in zip(proposed, classes, strict=True) if own in choice.classes]
    if not allowed:
        wanted = "--allow algorithm" if classes[0] == "algorithm" else "without --strict"
        return f"its class is {classes[0]}: {wanted}"
    changes = [Change(name, options) for options in allowed]
    live = module.TOGGLE == "live"
    compiles = costs.compiling if module.COMPILES else 0.0
    return Candidate(
        change=changes[0],
        title=module.TITLE,
        numerics=module.numerics(loop_profile, allowed[0]),
        bound=max(module.bound(loop_profile, options) for options in allowed),
        cost=2 * (costs.block + costs.flip) if live else 2 * (costs.start + costs.block),
        start=costs.start + compiles if live else compiles,
        prior=float(module.PRIOR),
        space=_line(changes),
        needs=module.NEEDS,
        gives=module.GIVES,
        conflicts=module.CONFLICTS,
        live=live,
    )


def _line(changes: list[Change]) -> tuple[Change, ...]:
    """The space of options in the order of their values, the recommended one among them; else as proposed."""
    values = [change.options.get("value") for change in changes]
    if len(changes) > 1 and all(type(value) in (int, float) for value in values):
        return tuple(sorted(changes, key=lambda change: float(change.options["value"])))
    return tuple(changes[1:])
