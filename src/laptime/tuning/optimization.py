"""The declaration of a script's optimization: `Optimization`, the object of each file in `catalogue/`.

A `Change` is one of them with its options, a `Recipe` several that are applied together."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.tuning.loop_profile import LoopProfile as LoopProfile

Options = dict[str, Any]  # plain JSON values by name
IN_FILE = re.compile(r"(.+\.(?:ya?ml|json)):([^:=]+)=(.*)")
"""A word that sets a value of a configuration file: `conf/train.yaml:optim.amp=True`."""
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

    @property
    def arguments(self) -> list[str]:
        """Words that make the script do the change itself, behind its own or `IN_FILE`; without any it is
        attached."""
        return [str(word) for word in self.options.get("arguments", ())]

    def __str__(self) -> str:
        """Write it as people do: `channels_last`, `num_workers=2`, `compile mode=reduce-overhead`."""
        values = [(key, value) for key, value in self.options.items() if key != "arguments"]
        by = [f"by {' '.join(self.arguments)}"] if self.arguments else []
        if len(values) == 1 and values[0][0] in (self.name, "value"):
            return " ".join([f"{self.name}={values[0][1]}", *by])
        return " ".join([self.name, *(f"{key}={value}" for key, value in values), *by])

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

    @property
    def labels(self) -> frozenset[str]:
        return frozenset(map(str, self.changes))

    def plus(self, change: Change) -> Recipe:
        """Add this change; it replaces the one of the same name, in its place."""
        if change.name in self.names:
            return Recipe(tuple(change if old.name == change.name else old for old in self.changes))
        return Recipe((*self.changes, change))

    def without(self, name: str) -> Recipe:
        return Recipe(tuple(change for change in self.changes if change.name != name))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the form in files: [{"name": ..., "options": {...}}]."""
        return [{"name": change.name, "options": change.options} for change in self.changes]

    @classmethod
    def from_json(cls, items: Iterable[dict[str, Any]]) -> Recipe:
        """Read what `to_json` has written. Raises KeyError, TypeError: it has not."""
        return cls(tuple(Change(str(item["name"]), dict(item.get("options") or {})) for item in items))


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The declaration of any change, whether a script or a model is changed."""

    title: str  # what it does, in a few words: "memory format channels_last"
    numerics: str  # how far results may move, which picks the gate: one of `NUMERICS`
    name: str = ""  # the word on the command line. An optimization has it from its file.
    # facts that must hold (`loop_profile.FACT_SENTENCES`), or that another change gives. With "!" in front:
    # facts that must not hold.
    needs: frozenset[str] = frozenset()
    # facts that hold once it is applied; changes that give the same exclude each other. None: its own name,
    # see `given_facts`.
    gives: frozenset[str] | None = None
    conflicts: frozenset[str] = frozenset()  # facts that no other change of the recipe may give
    prior: float = 0.5  # share of what it can save at most that it is expected to save, 0 to 1
    risky: bool = False  # it may make a step much slower, so it is raced alone before it is raced with others

    @property
    def given_facts(self) -> frozenset[str]:
        """Facts that hold once it is applied."""
        return frozenset({self.name}) if self.gives is None else self.gives


@dataclass(frozen=True, kw_only=True)
class Optimization(Declaration):
    """An optimization of a script. Every function but `apply`, `edit` and `look` is pure."""

    # what share of each part of a step (`loop_profile.SHARES`) it can save at most; or a function of loop
    # profile and options that gives the seconds of a step
    saves: Mapping[str, float] | Callable[[LoopProfile, Options], float]
    # attaches it to the running loop (`trial.loop.Loop`), or refuses with `loop.refuse(why)`
    apply: Callable[[Any, Options], object]
    # makes the same change in the user's source (`patch.editor.Editor`), or raises CannotEdit
    edit: Callable[[Any, Options], object]
    # options to try, the recommended one first; [] when it cannot help. Several are a space of one dimension:
    # in the order of their `value` if all have a number of that name, else as given. It is asked if `needs`
    # hold, or another change could make them hold. None: [{}] unless `why_not` has a reason.
    propose: Callable[[LoopProfile], list[Options]] | None = None
    # why it cannot help although `needs` hold, for `--dry-run` and the report; "" when it can
    why_not: Callable[[LoopProfile], str] = lambda loop_profile: ""
    # a class of numerics that depends on the loop. Its facts include what the other changes of the recipe
    # give.
    finer: Callable[[LoopProfile, Options], str] | None = None
    # what else it has to know of the loop, asked in a diagnosing trial after its steps with the
    # `trial.hooks.loop_hooks.LoopHooks`. Its JSON is found again in `loop_profile.details[NAME]`.
    look: Callable[[Any], Any] | None = None
    example: Any = None  # what `look` gives if the change is worth a try; `check_optimization` asks with it
    # it can be switched between two steps of one process, else only at the start of a process
    live: bool = False
    compiles: bool = False  # its first steps compile, and these seconds count against the run that is left
    fills: bool = False  # it pays from the second epoch on; `apply` fills what a patched script keeps, too
    read_at_start: bool = False  # it is an environment variable that torch reads when it is imported
    goal: str = "throughput"  # "memory" saves memory instead of time, and is tried only if that is the goal
    suggests: bool = False  # it is never applied, only shown as a diff that its `edit` makes
    # a regular expression of the names that scripts' own options for it have, such as `(use_)?tf32` for
    # --tf32 and --use-tf32
    switch: str = ""
    switch_values: tuple[str, ...] = ()  # what such an option is set to that is no yes or no

    def bound(self, loop_profile: LoopProfile, options: Options) -> float:
        """Seconds of a step that it can save at most."""
        if callable(self.saves):
            return self.saves(loop_profile, options)
        return float(sum(saved * loop_profile.share(part) for part, saved in self.saves.items()))

    def offer(self, loop_profile: LoopProfile) -> list[Options]:
        """Options to try, the recommended one first."""
        if self.propose is not None:
            return self.propose(loop_profile)
        return [] if self.why_not(loop_profile) else [{}]

    def numerics_in(self, loop_profile: LoopProfile, options: Options) -> str:
        """Say how far results may move in this loop."""
        return self.finer(loop_profile, options) if self.finer else self.numerics


def load(name: str) -> Optimization:
    """An optimization. name: of the catalogue or of another package, or the path of a file.
    Raises UsageError: there is none, or the file cannot be imported or has no `OPTIMIZATION`."""
    module = _from_file(name) if name.endswith(".py") else registry.load("optimizations", name)
    found = getattr(module, "OPTIMIZATION", None)
    if not isinstance(found, Optimization):
        has = "no OPTIMIZATION" if found is None else f"an OPTIMIZATION that is a {type(found).__name__}"
        raise UsageError(
            f"{name} is not an optimization",
            why=f"it has {has}; names such as TITLE and NUMERICS in the module are not read any more",
            next="OPTIMIZATION = Optimization(title=..., numerics=..., saves=..., apply=apply, edit=edit)   "
            "with the class of laptime.tuning.optimization",
        )
    return replace(found, name=Path(name).stem.replace("-", "_"))


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
    return module
