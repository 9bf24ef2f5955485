"""`--same NAME,...`: one architecture in every installed framework that has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from laptime.analysis.architecture import architecture, plain
from laptime.kit import registry
from laptime.kit.errors import LaptimeError, TargetError, Unavailable
from laptime.kit.extras import install
from laptime.kit.text import closest
from laptime.launch import fresh_call
from laptime.targets import Recipe, parse
from laptime.verbs.bench.variants import fits

OWN = ("torchvision", "keras")
"""A framework's own collection of models comes first."""

_TIMEOUT = 180.0


class FrameworkTargets(NamedTuple):
    """Targets of each architecture, one for each framework, and the installed backends that can run them."""

    targets: list[str]
    backends: list[str]


def same(
    names: str, *, backends: Sequence[str] = (), python: Mapping[str, str] | None = None
) -> FrameworkTargets:
    """Find architectures in the collections of all installed frameworks; spelling does not matter.

    Each collection is read in a process of its own, in the interpreter of its backend.

    Args:
        names: `efficientnet_b0`, `EfficientNetB0`; several behind commas.
        backends: to run them with; none takes all that are installed.
        python: interpreters by backend.

    Raises:
        TargetError: no framework here knows one of them.
        Unavailable: only one can run it, so that there is nothing to compare.
    """
    python = python or {}
    here = [backend for backend in registry.names("backends") if _is_here(backend, python)]
    kinds = [kind for kind in _collections() if _recipe(kind).backend in here]
    with ThreadPoolExecutor(max(1, len(kinds))) as pool:
        collections = dict(zip(kinds, pool.map(lambda kind: _collection(kind, python), kinds), strict=True))
    by_architecture = [
        _by_backend(name, collections)
        for name in dict.fromkeys(word.strip() for word in names.split(","))
        if name
    ]
    targets = [target for by_backend in by_architecture for target in by_backend.values()]
    recipes = [parse(target) for target in targets]
    # Each framework's own first: the baseline is a model as it was written, not as it was exported.
    ordered = sorted(
        here, key=lambda backend: not any(backend in by_backend for by_backend in by_architecture)
    )
    able = list(backends) or [
        backend for backend in ordered if any(fits(recipe, backend) for recipe in recipes)
    ]
    if len(targets) == len(able) == 1:
        raise Unavailable(
            f"only {able[0]} can run {targets[0]} here",
            why="a comparison needs another framework; " + ", ".join(_missing(here)) + " are not installed",
            next=f"{install('tensorflow')}   or --python tensorflow=.venv-tf/bin/python",
        )
    return FrameworkTargets(targets, able)


def _by_backend(name: str, collections: Mapping[str, list[str]]) -> dict[str, str]:
    """The target of one architecture by backend."""
    by_backend: dict[str, str] = {}
    for kind, targets in collections.items():
        match = next((target for target in targets if architecture(target) == plain(name)), None)
        if match is not None:
            by_backend.setdefault(_recipe(kind).backend, match)
    if not by_backend:
        raise _unknown(name, collections)
    return by_backend


def _collections() -> list[str]:
    """Kinds of targets that name models of a package, a framework's own first."""
    kinds = [
        kind for kind in registry.names("targets") if f"{kind}:NAME" == registry.load("targets", kind).FORM
    ]
    return sorted(kinds, key=lambda kind: OWN.index(kind) if kind in OWN else len(OWN))


def _recipe(kind: str) -> Recipe:
    recipe: Recipe = registry.load("targets", kind).resolve(f"{kind}:any")
    return recipe


def _is_here(backend: str, python: Mapping[str, str]) -> bool:
    return backend != "null" and bool(backend in python or registry.load("backends", backend).available())


def _missing(here: Sequence[str]) -> list[str]:
    return [name for name in registry.names("backends") if name not in (*here, "null")]


def _collection(kind: str, python: Mapping[str, str]) -> list[str]:
    """Targets of a kind; none where the framework is installed without the package that has them."""
    arguments = {"kind": kind}
    try:
        targets: list[str] = fresh_call.call(
            "laptime.targets:known", arguments, timeout=_TIMEOUT, python=python.get(_recipe(kind).backend, "")
        )
    except LaptimeError:
        return []
    return targets


def _unknown(name: str, collections: Mapping[str, list[str]]) -> TargetError:
    every = {
        plain(target.partition(":")[2]): target for targets in collections.values() for target in targets
    }
    near = closest(plain(name), every)
    searched = ", ".join(kind for kind, targets in collections.items() if targets)
    return TargetError(
        f"no framework here knows a model called {name!r}",
        why=f"looked among {len(every):,} models of {searched}"
        if searched
        else "no collection of models is installed",
        next=f"did you mean --same {every[near].partition(':')[2]}?" if near else "laptime doctor",
    )
