"""Which backend runs which target: the requested ones that can, otherwise the one that the target implies."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple

from laptime.kit.errors import Unavailable, UsageError
from laptime.kit.registry import load
from laptime.records.check import Finding
from laptime.targets import Recipe


class Selection(NamedTuple):
    """Pairs to measure, in the order of targets and then of backends; and findings on what is left out."""

    pairs: list[tuple[Recipe, str]]
    left_out: list[Finding]


def select_backends(recipes: list[Recipe], backends: list[str]) -> Selection:
    """Pair every target with the backends that can run it; without backends, with the one it implies.

    Raises:
        UsageError: none of the backends asked for can run any of the targets.
    """
    if not backends:
        return Selection([(recipe, recipe.backend) for recipe in recipes], [])
    fitting = {id(recipe): [name for name in backends if fits(recipe, name)] for recipe in recipes}
    if not any(fitting.values()):
        raise UsageError(
            f"{_listed(backends)} cannot run {_listed([recipe.target for recipe in recipes])}",
            why="; ".join(f"{name} runs targets of the kinds {_listed(_kinds(name))}" for name in backends),
            next=f"--backend {recipes[0].backend}",
        )
    pairs = [(recipe, name) for recipe in recipes for name in fitting[id(recipe)] or [recipe.backend]]
    return Selection(
        pairs, [note for recipe in recipes if (note := _note(recipe, backends, fitting[id(recipe)]))]
    )


def check_installed(pairs: list[tuple[Recipe, str]], elsewhere: Mapping[str, str]) -> None:
    """Check that backends and the packages of targets are installed, for those that this interpreter loads.

    Args:
        elsewhere: backends that have an interpreter of their own.

    Raises:
        Unavailable: one is missing.
    """
    for recipe, backend in pairs:
        if recipe.kind != "object":  # the process that made it has what it needs
            check_backend(backend, elsewhere)
        for package in _packages(recipe, backend) if backend not in elsewhere else ():
            if find_spec(package) is None:
                extras = ",".join(dict.fromkeys((recipe.backend, backend)))
                raise Unavailable(
                    f"{package} is not installed",
                    why=f"the target {recipe.target} needs it",
                    next=f"pip install 'laptime[{extras}]'   or --python {backend}=PATH",
                )


def _packages(recipe: Recipe, backend: str) -> tuple[str, ...]:
    """What a target needs, and what another framework needs to get it."""
    is_exported = backend != recipe.backend and not recipe.file and recipe.kind != "object"
    exporters: tuple[str, ...] = getattr(load("backends", backend), "EXPORTS_WITH", ())
    return (*recipe.packages, *exporters) if is_exported else recipe.packages


def check_backend(backend: str, elsewhere: Mapping[str, str]) -> None:
    """Check that a backend is installed, unless it has an interpreter of its own.

    Raises:
        Unavailable: it is not.
    """
    if backend in elsewhere or load("backends", backend).available() or find_spec(backend) is not None:
        return
    raise Unavailable(
        f"{backend} is not installed",
        why=f"the backend {backend} runs models with it",
        next=f"pip install 'laptime[{backend}]'   or --python {backend}=PATH",
    )


def fits(recipe: Recipe, backend: str) -> bool:
    """Whether a backend can run targets of this kind; one without TARGETS runs any."""
    kinds = _kinds(backend)
    # An object of this process may be anything; its backend says what is wrong with it.
    return recipe.kind in (*kinds, "object") or recipe.backend == backend or not kinds


def _kinds(backend: str) -> list[str]:
    return list(getattr(load("backends", backend), "TARGETS", ()))


def _note(recipe: Recipe, backends: list[str], fitting: list[str]) -> Finding | None:
    missing = [name for name in backends if name not in fitting]
    if not missing:
        return None
    runs = fitting or [recipe.backend]
    return Finding(
        kind="plan/left_out",
        sentence=f"{recipe.target} is measured with {_listed(runs)} only: {_listed(missing)} cannot run it",
        evidence={"target": recipe.target, "runs": runs, "left_out": missing},
    )


def _listed(names: list[str]) -> str:
    *others, last = dict.fromkeys(names)
    return f"{', '.join(others)} and {last}" if others else last
