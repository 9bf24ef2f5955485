"""The contract of an optimization: one file in `catalogue/`, or a module that another package names by an
entry point.

A module has

    TITLE: str      what it does, in a few words: "memory format channels_last"
    NUMERICS: str   how far results may move, which picks the gate: one of `NUMERICS` below
    SAVES: dict[str, float]
            what share of each part of a step (`loop_profile.SHARES`) it can save at most; or, where that
            depends on more,
    bound(loop_profile, options) -> float
            seconds of a step that it can save at most
    apply(loop, options) -> None
            attaches it to the running loop (`trial.loop.Loop`), or refuses with `loop.refuse(why)`
    edit(script, options) -> None
            makes the same change in the user's source (`patch.editor.Editor`), or raises CannotEdit

and may have, with a default that `load` fills in where it does not

    propose(loop_profile) -> list[dict]
            options to try, the recommended one first; [] when it cannot help. Several are a space of one
            dimension: in the order of their `value` where all have a number of that name, else as given.
            Asked where NEEDS hold, or another change could make them hold. Default: [{}] unless `why_not`
            has a reason
    why_not(loop_profile) -> str
            why it cannot help though NEEDS hold, for `--dry-run` and the report; "" when it can. Default: ""
    TOGGLE: str
            "live": can be switched between two steps of one process. Default: "process", only at its start
    NEEDS: frozenset[str]
            facts that must hold: of the loop (`loop_profile.FACT_SENTENCES`) or given by another change.
            With "!" in front: facts that must not hold. Default: none
    GIVES: frozenset[str]
            facts that hold once it is applied. Changes that give the same one exclude each other.
            Default: its own name
    CONFLICTS: frozenset[str]
            facts that no other change of the recipe may give. Default: none
    look(hooks) -> JSON
            what else it has to know of the loop, asked in a diagnosing trial after its steps
            (`trial.hooks.loop_hooks.LoopHooks`); found again in `loop_profile.details[NAME]`
    EXAMPLE: JSON   what `look` gives where the change is worth a try: `check_optimization` asks with it
    numerics(loop_profile, options) -> str
            a finer class than NUMERICS, where the loop decides; its facts include what the other changes
            of the recipe give. Default: NUMERICS
    PRIOR: float    share of its bound that it is expected to reach, 0 to 1. Default: 0.5
    RISKY: bool     it may make a step much slower: it is raced alone before it is raced with others
    COMPILES: bool  its first steps compile: these seconds count against the run that is left
    GOAL: str       "memory": saves memory, not time, and is tried only where that is the goal
    SUGGESTS: bool  never applied, only shown as a suggested diff by its `edit`

`propose`, `bound`, `why_not` and `numerics` are pure functions.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.tuning.loop_profile import LoopProfile as LoopProfile

Options = dict[str, Any]
"""Plain JSON values by name."""

NUMERICS = ("exact", "reassociated", "random", "precision", "algorithm")
"""Classes from harmless to far-reaching; see docs/tune.md."""


def farthest(classes: Iterable[str]) -> str:
    """The most far-reaching of these classes, whose gate a recipe of several changes has to pass."""
    return max(classes, key=NUMERICS.index, default="exact")


class CannotEdit(Exception):
    """The user's source cannot be edited for a change; the text says why. The recipe still holds it."""


@dataclass(frozen=True)
class Change:
    """One optimization with its options."""

    name: str
    options: Options = field(default_factory=dict)

    def __str__(self) -> str:
        """As people write it: `channels_last`, `num_workers=2`, `compile mode=reduce-overhead`."""
        values = list(self.options.items())
        if len(values) == 1 and values[0][0] in (self.name, "value"):
            return f"{self.name}={values[0][1]}"
        return " ".join([self.name, *(f"{key}={value}" for key, value in values)])

    def __hash__(self) -> int:
        return hash(json.dumps([self.name, self.options], sort_keys=True))


@dataclass(frozen=True)
class Recipe:
    """Changes that are applied together, in this order. The empty one is the script as it is."""

    changes: tuple[Change, ...] = ()

    def __str__(self) -> str:
        return " + ".join(str(change) for change in self.changes) or "as it is"

    def __iter__(self) -> Any:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(change.name for change in self.changes)

    def plus(self, change: Change) -> Recipe:
        """With this change; it replaces the one of the same name, in its place."""
        if change.name in self.names:
            return Recipe(tuple(change if old.name == change.name else old for old in self.changes))
        return Recipe((*self.changes, change))

    def without(self, name: str) -> Recipe:
        return Recipe(tuple(change for change in self.changes if change.name != name))

    def to_json(self) -> list[dict[str, Any]]:
        """As it is written into files: [{"name": ..., "options": {...}}]."""
        return [{"name": change.name, "options": change.options} for change in self.changes]

    @classmethod
    def from_json(cls, items: Iterable[dict[str, Any]]) -> Recipe:
        """What `to_json` has written.

        Raises:
            KeyError, TypeError: it has not.
        """
        return cls(tuple(Change(str(item["name"]), dict(item.get("options") or {})) for item in items))


REQUIRED = ("TITLE", "NUMERICS", "bound", "apply", "edit")
"""What every module has; SAVES stands for bound."""


def load(name: str) -> ModuleType:
    """The module of an optimization with every part of the contract: those that it leaves out have defaults.

    Args:
        name: of the catalogue or of another package, or the path of a file.

    Raises:
        UsageError: there is none, or the file cannot be imported or lacks a part.
    """
    module = _from_file(name) if name.endswith(".py") else registry.load("optimizations", name)
    defaults: dict[str, Any] = {
        "bound": lambda loop_profile, options: float(
            sum(saved * loop_profile.share(part) for part, saved in module.SAVES.items())
        ),
        "propose": lambda loop_profile: [] if module.why_not(loop_profile) else [{}],
        "why_not": lambda loop_profile: "",
        "numerics": lambda loop_profile, options: module.NUMERICS,
        "look": None,
        "EXAMPLE": None,
        "TOGGLE": "process",
        "NEEDS": frozenset(),
        "GIVES": frozenset({Path(name).stem.replace("-", "_")}),
        "CONFLICTS": frozenset(),
        "PRIOR": 0.5,
        "RISKY": False,
        "COMPILES": False,
        "READ_AT_START": False,
        "GOAL": "throughput",
        "SUGGESTS": False,
    }
    for part, default in defaults.items():
        if not hasattr(module, part):
            setattr(module, part, default)
    return module


def _from_file(name: str) -> ModuleType:
    path = Path(name)
    spec = importlib.util.spec_from_file_location(f"laptime_optimization_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(
            f"there is no optimization {name}",
            why=f"looked for the file {path.resolve()}",
            next="--with optimization.py   the path of a Python file",
        )
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(
            f"{name} is broken", why=f"{type(error).__name__}: {error}", next=f"python {name}   shows where"
        ) from error
    given = {"bound", *vars(module)} if hasattr(module, "SAVES") else vars(module)
    if lacking := [part for part in REQUIRED if part not in given]:
        raise UsageError(
            f"{name} is no optimization",
            why=f"it lacks {', '.join(lacking)}",
            next="CONTRIBUTING.md, An optimization, says what one has",
        )
    return module
