"""The contract of a change to a model: one file in `catalogue/`, or a module that another package names by an
entry point.

A module has

    TITLE: str      what it does, in a few words
    NUMERICS: str   how far outputs may move: exact, reassociated, precision
    SAVES: float    share of a call that it can save at most
    apply(draft, options) -> None
                    makes it (`draft.Draft`), or raises `draft.Refused`

and may have, with a default that `load` fills in where it does not

    propose(loop_profile) -> list[dict]
            options to try, the recommended one first. Default: [{}]
    PACKAGES: tuple[str, ...]
            what has to be installed. Default: none
    NEEDS, GIVES, CONFLICTS: frozenset[str]
            facts, as of `tuning.optimization`. `other_runtime`: PyTorch does not run it
    PRIOR: float    share of SAVES that it is expected to reach. Default: 0.5
    RISKY: bool     it may make a call much slower: it is raced alone before it is raced with others
    BUILDS: float   seconds that writing the artefact takes, about. Default: 8
    SETTINGS: bool  it only changes settings of tuned.py, and `apply` looks at `draft.settings` alone: folders
                    share the artefact. Default: False
    ARTEFACT: str   the change whose artefact it runs with other settings. Default: itself
    AS_EXPORTED: bool
                    its artefact is made of the module as it is. Default: whether it gives `other_runtime`
    HOLDS: frozenset[str]
                    changes of settings that its artefact is written for. Default: none
    GOALS: tuple[str, ...]
            goals that it can serve. Default: all
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from laptime.kit import registry
from laptime.tuning.loop_profile import LoopProfile, unmet_need
from laptime.tuning.optimization import Change, Recipe, farthest
from laptime.tuning.search.evaluator import Candidate, CandidateSet

ROOM = "model_changes"
DEFAULT = frozenset({"exact", "reassociated"})
GOALS = ("latency", "throughput", "memory", "cost")
BACK = 0.1
"""What is left of the hope of a float32 runtime where fewer bits have won: int8 comes first."""


def load(name: str) -> ModuleType:
    """The module of a change with every part of the contract.

    Raises:
        UsageError: there is none.
    """
    module = registry.load(ROOM, name)
    defaults: dict[str, Any] = {
        "propose": lambda loop_profile: [{}],
        "PACKAGES": (),
        "NEEDS": frozenset(),
        "GIVES": frozenset({name}),
        "CONFLICTS": frozenset(),
        "PRIOR": 0.5,
        "RISKY": False,
        "BUILDS": 8.0,
        "SETTINGS": False,
        "HOLDS": frozenset(),
        "ARTEFACT": name,
        "GOALS": GOALS,
    }
    defaults["AS_EXPORTED"] = "other_runtime" in getattr(module, "GIVES", ())
    for part, default in defaults.items():
        if not hasattr(module, part):
            setattr(module, part, default)
    return module


def numerics_of(recipe: Recipe) -> str:
    """The most far-reaching class of a recipe's changes; exact for none."""
    return farthest(load(name).NUMERICS for name in recipe.names)


def artefact_of(recipe: Recipe) -> Recipe:
    """The changes that decide what the artefact is: recipes that share them differ in settings alone."""
    held = frozenset[str]().union(*(load(name).HOLDS for name in recipe.names))
    there = (each for each in recipe if not load(each.name).SETTINGS or each.name in held)
    return Recipe(tuple(Change(load(each.name).ARTEFACT, each.options) for each in there))


def is_as_exported(recipe: Recipe) -> bool:
    """Whether the artefact is made of the model as it is: other runtimes do the rest."""
    return all(load(name).AS_EXPORTED for name in artefact_of(recipe).names)


def missing(packages: Iterable[str]) -> list[str]:
    """Packages that are not installed here."""
    return [package for package in packages if find_spec(package) is None]


def find_candidates(
    loop_profile: LoopProfile,
    recipe: Recipe,
    *,
    goal: str,
    allow: frozenset[str],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    block: float,
    starts: float,
    rounds: int,
    missing_of: Callable[[str], list[str]] = lambda name: missing(load(name).PACKAGES),
) -> CandidateSet:
    """Everything that could be tried on top of a recipe, and why the rest could not.

    Args:
        allow: numerics classes. only, skip: names; no `only` means all.
        block: seconds of one side of a round. starts: seconds until both arms are ready; new ones are started
            after so many `rounds`.
        missing_of: packages that a change needs and that are not installed.
    """
    facts = loop_profile.facts.union(*(load(name).GIVES for name in recipe.names))
    usable: list[Candidate] = []
    ruled_out: dict[str, str] = {}
    for name in registry.names(ROOM):
        module = load(name)
        why = _why_not(module, name, facts - module.GIVES, goal, allow, only, skip, missing_of)
        kept = [change.options for change in recipe if change.name == name]
        options = [] if why else [each for each in module.propose(loop_profile) if each not in kept]
        if not options:
            ruled_out[name] = why or ("kept already" if kept else "cannot help this model")
            continue
        changes = tuple(Change(name, each) for each in options)
        usable.append(
            Candidate(
                change=changes[0],
                title=module.TITLE,
                numerics=module.NUMERICS,
                bound=module.SAVES * loop_profile.step,
                cost=2 * block + starts / rounds,
                start=starts + (0.0 if len(recipe) and module.SETTINGS else module.BUILDS),
                prior=module.PRIOR * (BACK if _is_back(module, facts) else 1.0),
                space=_line(changes),
                needs=module.NEEDS,
                gives=module.GIVES,
                conflicts=module.CONFLICTS,
                risky=module.RISKY,
            )
        )
    return CandidateSet(tuple(usable), ruled_out)


def _is_back(module: ModuleType, facts: frozenset[str]) -> bool:
    """Whether a change takes away what computes in fewer bits now, and puts float32 in its place."""
    return module.NUMERICS != "precision" and "half_precision" in facts & module.CONFLICTS


def _line(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Options in the order of their values; one that has none stands first."""
    if len(changes) < 2:
        return ()
    return tuple(sorted(changes, key=lambda change: change.options.get("value", 0)))


def _why_not(
    module: ModuleType,
    name: str,
    facts: frozenset[str],
    goal: str,
    allow: frozenset[str],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    missing_of: Callable[[str], list[str]],
) -> str:
    """Why a name is no candidate; "" when it is one."""
    if name in skip or (only and name not in only and name != "identity"):
        return "left out by --skip" if name in skip else "left out by --only"
    if lacks := missing_of(name):
        return f"{lacks[0]} is not installed"
    if goal not in module.GOALS:
        return f"does not serve the goal {goal}"
    if module.NUMERICS not in allow:
        return f"its class is {module.NUMERICS}: --allow {module.NUMERICS}"
    return unmet_need(module.NEEDS, facts)
