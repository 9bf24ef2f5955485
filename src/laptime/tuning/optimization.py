"""The contract of an optimization: one file in `catalogue/`, or a module that another package names by an
entry point.

A module has

    TITLE: str              what it does, in a few words: "memory format channels_last"
    NUMERICS: str           exact, reassociated, random, precision, algorithm: picks the gate (`NUMERICS`
    below)
    TOGGLE: str             "live": can be put on and taken off between two steps of one process;
                            "process": from the start of a process on
    NEEDS: frozenset[str]   facts that must hold: of the loop (`LoopProfile.facts`) or given by other
                            changes. A name with "!" in front must not hold. Facts are the names of
                            `loop_profile.FACTS` and of optimizations
    GIVES: frozenset[str]   facts that hold once it is applied. Two changes that give the same fact exclude
    each other
    CONFLICTS: frozenset[str]   facts that must not be given by another change of the recipe

    propose(loop_profile) -> list[dict]    options to try, the recommended one first; [] when it cannot help.
                            More than one is a one-dimensional space: in the order of their `value` where all
                            have a number of that name, else in this order
    bound(loop_profile, options) -> float     seconds of a step that it can save at most
    apply(loop, options) -> None           attach to the script's loop (`trial.loop.Loop`)
    edit(script, options) -> None          the same in the user's source (`patch.editor.Editor`);
                            raises CannotEdit with the reason

and may have

    SUGGESTS: bool = True   never applied on its own: `edit` makes a suggested diff, `apply` is not called
    why_not(loop_profile) -> str      why `propose` gives nothing, for `--dry-run` and the report
    numerics(loop_profile, options) -> str   a finer class than NUMERICS, where the loop profile decides;
                            `loop_profile.facts` then hold what the other changes of the recipe give, too
    look(points) -> Any     in a diagnosing trial, after its steps: what else it has to know of the loop
                            (`trial.mode.Points`); plain JSON, becomes `loop_profile.details[NAME]`
    PRIOR: float            share of its bound that it is expected to reach, 0 to 1; 0.5 where it is not said
    COMPILES: bool = True   the first steps compile: its seconds count against the run that is left
    GOAL: str = "memory"    saves memory and not time: tried only where that is the goal
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from laptime.kit import registry
from laptime.kit.errors import UsageError

Options = dict[str, Any]
"""Plain JSON values by name."""

NUMERICS = ("exact", "reassociated", "random", "precision", "algorithm")
"""Classes from harmless to far-reaching; see docs/tune.md."""


class CannotEdit(Exception):
    """The user's source cannot be changed so; the text says why. The recipe still holds it."""


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
        """Names of the optimizations."""
        return tuple(change.name for change in self.changes)

    def plus(self, change: Change) -> Recipe:
        """With this change; it replaces the one of the same name, in its place."""
        if change.name in self.names:
            return Recipe(tuple(change if own.name == change.name else own for own in self.changes))
        return Recipe((*self.changes, change))

    def without(self, name: str) -> Recipe:
        """Without the optimization of this name."""
        return Recipe(tuple(own for own in self.changes if own.name != name))

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


class Optimization(Protocol):
    """The module of an optimization, as the rest of the house sees it."""

    TITLE: str
    NUMERICS: str
    TOGGLE: str
    NEEDS: frozenset[str]
    GIVES: frozenset[str]
    CONFLICTS: frozenset[str]

    def propose(self, loop_profile: Any) -> list[Options]: ...
    def bound(self, loop_profile: Any, options: Options) -> float: ...
    def apply(self, loop: Any, options: Options) -> None: ...
    def edit(self, script: Any, options: Options) -> None: ...


_PARTS = (
    *("TITLE", "NUMERICS", "TOGGLE", "NEEDS", "GIVES", "CONFLICTS"),
    *("propose", "bound", "apply", "edit"),
)
"""What every module has."""


def load(name: str) -> ModuleType:
    """The module of an optimization: a name of the catalogue or of another package, or the path of a file.

    Raises:
        UsageError: there is none, or the file cannot be imported or lacks a part.
    """
    if not name.endswith(".py"):
        return registry.load("optimizations", name)
    path = Path(name)
    spec = importlib.util.spec_from_file_location(f"laptime_optimization_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(
            f"there is no optimization {name}",
            why=f"looked for the file {path.resolve()}",
            next="--with takes the path of a Python file",
        )
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(
            f"{name} is broken", why=f"{type(error).__name__}: {error}", next=f"python {name}   shows where"
        ) from error
    if lacking := [each for each in _PARTS if not hasattr(module, each)]:
        raise UsageError(
            f"{name} is no optimization",
            why=f"it lacks {', '.join(lacking)}",
            next="CONTRIBUTING.md, An optimization, says what one has",
        )
    return module
