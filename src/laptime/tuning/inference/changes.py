"""Changes that can make a model faster to run, which of them are candidates, and where their packages live.

`runtimes/` has them, a file a runtime: `CHANGES` are its `ModelChange`s, `FORMS` the ways to write a model
that it runs.

`--python openvino=.venv-ov` names `Interpreters` that packages live in. The folder of a change that needs
such a package is written and run there, all others by laptime's own interpreter. PyTorch's export is
laptime's own in any case, so an environment of ONNX Runtime or OpenVINO needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laptime.kit import registry
from laptime.kit.errors import LaptimeError, Unavailable, UsageError, unknown
from laptime.launch import fresh_call
from laptime.launch.interpreter import path_of
from laptime.tuning.candidates import find_veto
from laptime.tuning.loop_profile import LoopProfile, unmet_need
from laptime.tuning.optimization import Change, Declaration, Options, Recipe, farthest
from laptime.tuning.search.evaluator import Candidate, CandidateSet

if TYPE_CHECKING:
    from laptime.tuning.inference.draft import Draft

ROOM = "model_changes"
DEFAULT = frozenset({"exact", "reassociated"})
GOALS = ("latency", "throughput", "memory", "cost")
BACK = 0.1  # what is left of the hope of a float32 runtime if fewer bits have won: int8 comes first
NAMED = ("onnxruntime", "openvino", "nncf", "torchao", "tensorrt")  # packages whose interpreter can be named
EXPORTING = ("onnx", "onnxscript")  # packages that PyTorch's export takes
PROBE = 60.0  # seconds that an interpreter may take to say what is installed there


@dataclass(frozen=True, kw_only=True)
class ModelChange(Declaration):
    """A change to a model. `other_runtime` among the facts that it gives: PyTorch does not run it."""

    saves: float  # share of a call that it can save at most
    form: str = ""  # how the model is written then, a name of `FORMS`; "": as it would be without it
    # settings, properties: of tuned.py, in recipe.json; properties are those of OpenVINO
    settings: Mapping[str, Any] | None = None
    properties: Mapping[str, Any] | None = None
    # whatever else it does to the draft, before form and settings; it may raise `draft.Refused`
    apply: Callable[[Draft, Options], None] | None = None
    # options to try, the recommended one first
    propose: Callable[[LoopProfile], list[Options]] = lambda loop_profile: [{}]
    packages: tuple[str, ...] = ()  # what has to be installed
    builds: float = 8.0  # seconds that writing the artefact takes, about
    # it only changes settings, and `apply` looks at `draft.settings` alone: folders share the artefact
    settings_only: bool = False
    artefact: str = ""  # the change whose artefact it runs with other settings; "": its own
    # its artefact is made of the module as it is. None: if it gives `other_runtime`
    as_exported: bool | None = None
    holds: frozenset[str] = frozenset()  # changes of settings that its artefact is written for
    goals: tuple[str, ...] = GOALS  # goals that it can serve

    @property
    def is_as_exported(self) -> bool:
        """Whether its artefact is made of the module as it is."""
        return "other_runtime" in self.given_facts if self.as_exported is None else self.as_exported

    @classmethod
    def row(
        cls,
        name: str,
        title: str,
        needs: str,
        figures: tuple[float, float, float],
        form: str = "",
        rounds: str = "",
        **fields: Any,
    ) -> ModelChange:
        """A row of a runtime's table.
        needs: facts, with spaces between them. figures: `saves`, `prior`, `builds`. rounds: the type of fewer
        bits that it computes in. Unless told otherwise its class is reassociated, or precision if it rounds.
        fields: as they are."""
        saves, prior, builds = figures
        if rounds:
            gives = fields.get("gives", frozenset()) | {"half_precision"}
            fields = {"numerics": "precision", "settings": {"precision": rounds}, **fields, "gives": gives}
        own = {"name": name, "title": title, "needs": frozenset(needs.split()), "form": form, "saves": saves}
        return cls(**{"numerics": "reassociated", "prior": prior, "builds": builds, **own, **fields})

    def make(self, draft: Draft, options: Options) -> None:
        """Change a draft. Raises Refused: it cannot be made to this model."""
        if self.apply is not None:
            self.apply(draft, options)
        draft.form = self.form or draft.form
        draft.settings |= self.settings or {}
        if self.properties:
            draft.settings.setdefault("properties", {}).update(self.properties)


@dataclass(frozen=True, kw_only=True)
class Form:
    """How a draft is written into a folder, and run there."""

    write: Callable[[Draft, Path], None]  # writes the artefact, or raises `draft.Refused`
    tuned: str  # the file of `handed_back/` that becomes its tuned.py
    on_cuda: str = ""  # the same of a folder for a CUDA device; "": it has none
    packages: tuple[str, ...] = ()  # that tuned.py imports
    profiler: str = ""  # whose profiler sees its calls, a name of `recordings.READERS`; "": none


def names() -> tuple[str, ...]:
    """All changes."""
    return tuple(sorted(registry.entries(ROOM)))


def load(name: str) -> ModelChange:
    """A change. Raises UsageError: there is none. LaptimeError: a package has another object in its table."""
    found = registry.entries(ROOM)
    if name not in found:
        raise unknown("model change", name, names())
    if not isinstance(change := found[name], ModelChange):
        raise LaptimeError(
            f"the model change {name!r} is broken",
            why=f"it is a {type(change).__name__}",
            next="CHANGES = [laptime.tuning.inference.changes.ModelChange(name=..., title=..., ...)]",
        )
    return change


def form_of(name: str) -> Form:
    """Return how a form is written."""
    tables = (getattr(registry.load(ROOM, runtime), "FORMS", {}) for runtime in registry.names(ROOM))
    form: Form = next(table[name] for table in tables if name in table)
    return form


def numerics_of(recipe: Recipe) -> str:
    """The most far-reaching class of a recipe's changes; exact for none."""
    return farthest(load(name).numerics for name in recipe.names)


def artefact_of(recipe: Recipe) -> Recipe:
    """The changes that decide what the artefact is: recipes that share them differ in settings alone."""
    held = frozenset[str]().union(*(load(name).holds for name in recipe.names))
    there = (each for each in recipe if not load(each.name).settings_only or each.name in held)
    return Recipe(tuple(Change(load(each.name).artefact or each.name, each.options) for each in there))


def is_as_exported(recipe: Recipe) -> bool:
    """Whether the artefact is made of the model as it is: other runtimes do the rest."""
    return all(load(name).is_as_exported for name in artefact_of(recipe).names)


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
    missing_of: Callable[[str], list[str]] = lambda name: missing(load(name).packages),
) -> CandidateSet:
    """Everything that could be tried on top of a recipe, and why the rest could not.
    allow: numerics classes. only, skip: names; no `only` means all. block: seconds of one side of a round.
    starts: seconds until both arms are ready, before each so many `rounds`. missing_of: packages that a
    change needs and that are not installed."""
    facts = loop_profile.facts.union(*(load(name).given_facts for name in recipe.names))
    usable: list[Candidate] = []
    ruled_out: dict[str, str] = {}
    for name in names():
        own = load(name)
        why = (
            find_veto(name, only, skip)
            or (f"{lacks[0]} is not installed" if (lacks := missing_of(name)) else "")
            or ("" if goal in own.goals else f"does not serve the goal {goal}")
            or ("" if own.numerics in allow else f"its class is {own.numerics}: --allow {own.numerics}")
            or unmet_need(own.needs, facts - own.given_facts)
        )
        kept = [change.options for change in recipe if change.name == name]
        options = [] if why else [each for each in own.propose(loop_profile) if each not in kept]
        if not options:
            ruled_out[name] = why or ("kept already" if kept else "cannot help this model")
            continue
        changes = tuple(Change(name, option) for option in options)
        # In the order of their values; one that has none stands first.
        space = tuple(sorted(changes, key=lambda each: each.options.get("value", 0)))
        # It takes away what computes in fewer bits now, and puts float32 in its place.
        is_back = own.numerics != "precision" and "half_precision" in facts & own.conflicts
        usable.append(
            Candidate(
                change=changes[0],
                title=own.title,
                numerics=own.numerics,
                bound=own.saves * loop_profile.step,
                cost=2 * block + starts / rounds,
                start=0.0 if len(recipe) and own.settings_only else own.builds,
                prior=own.prior * (BACK if is_back else 1.0),
                space=space if len(changes) > 1 else (),
                needs=own.needs,
                gives=own.given_facts,
                conflicts=own.conflicts,
                risky=own.risky,
            )
        )
    return CandidateSet(tuple(usable), ruled_out)


@dataclass(frozen=True)
class Interpreters:
    """Which interpreter writes and runs what."""

    # an interpreter, or the folder of its environment, by package; see `NAMED`
    named: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_text(cls, text: str) -> Interpreters:
        """`openvino=.venv-ov,torchao=.venv-t`.
        Raises UsageError: it has another form, names another package, or there is no such interpreter.
        Unavailable: the package is not installed there, or laptime cannot run there."""
        named: dict[str, str] = {}
        for part in filter(None, text.split(",")):
            package, assigned, python = part.partition("=")
            if not assigned:
                raise UsageError(
                    f"--python {part}: runtimes have an interpreter, models have none",
                    why="NAME=PATH says where one of them is installed",
                    next=f"--python openvino={part}",
                )
            if package not in NAMED:
                example = "--python openvino=.venv-ov"
                raise unknown("package", package, NAMED, option="--python", example=example)
            named[package] = path_of(python)
            if package not in _ask_installed(named[package]):
                raise Unavailable(
                    f"{package} is not installed in {python}",
                    why="--python says that it is",
                    next=f"{named[package]} -m pip install {package}",
                )
        return cls(named)

    def of(self, changes: Iterable[str]) -> str:
        """The interpreter of a folder with these changes; "": laptime's own."""
        if not self.named:
            return ""
        packages = chain.from_iterable(load(name).packages for name in changes)
        return next((self.named[package] for package in packages if package in self.named), "")

    def text(self, changes: Iterable[str]) -> str:
        """Return the text that `of_text` reads, as far as these changes need it, with absolute paths."""
        if not self.named:
            return ""
        packages = set(chain.from_iterable(load(name).packages for name in changes))
        return ",".join(f"{each}={self.named[each]}" for each in self.named if each in packages)

    def missing(self, change: str) -> list[str]:
        """Packages that a change needs and that are not where it needs them."""
        python, packages = self.of([change]), load(change).packages
        if not python:
            return missing(packages)
        of_export = [package for package in packages if package in EXPORTING]
        there = _ask_installed(python)
        return [*missing(of_export), *(each for each in packages if each not in (*of_export, *there))]

    def has_torch(self, python: str) -> bool:
        """Whether PyTorch is installed there; "": laptime's own."""
        return not python or "torch" in _ask_installed(python)


@cache
def _ask_installed(python: str) -> frozenset[str]:
    """Return which of the packages that changes need, and torch, are installed there."""
    return frozenset(fresh_call.call(f"{__name__}:list_installed", {}, timeout=PROBE, python=python))


def list_installed() -> list[str]:
    """Say which of the packages that are asked for are installed here."""
    return [name for name in (*NAMED, "torch") if find_spec(name) is not None]
