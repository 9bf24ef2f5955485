"""What is measured of each target: with which backends (those asked for that can, otherwise the one that the
target implies), and in how many instances at the same time, if there are CPUs for them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from msgspec import structs

from laptime.kit import system_files
from laptime.kit.errors import Unavailable, UsageError
from laptime.kit.extras import install
from laptime.kit.registry import load
from laptime.kit.text import count
from laptime.launch.instances import placed
from laptime.records.check import Finding
from laptime.records.plan import BenchRequest, Variant
from laptime.targets import Recipe


class Selection(NamedTuple):
    """Pairs to measure, in the order of targets and then of backends; and findings on what is left out."""

    pairs: list[tuple[Recipe, str]]
    left_out: list[Finding]


def select_backends(recipes: list[Recipe], backends: list[str]) -> Selection:
    """Pair every target with the backends that can run it; without backends, with the one it implies.
    Raises UsageError: none of the backends asked for can run any of the targets.
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
                raise Unavailable(
                    f"{package} is not installed",
                    why=f"the target {recipe.target} needs it",
                    next=f"{install(recipe.backend, backend)}   or --python {backend}=PATH",
                )


def _packages(recipe: Recipe, backend: str) -> tuple[str, ...]:
    """What a target needs, and what another framework needs to get it."""
    is_exported = backend != recipe.backend and not recipe.file and recipe.kind != "object"
    exporters: tuple[str, ...] = getattr(load("backends", backend), "EXPORTS_WITH", ())
    return (*recipe.packages, *exporters) if is_exported else recipe.packages


def check_backend(backend: str, elsewhere: Mapping[str, str]) -> None:
    """Check that a backend is installed, unless it has an interpreter of its own.
    Raises Unavailable: it is not.
    """
    if backend in elsewhere or load("backends", backend).available() or find_spec(backend) is not None:
        return
    raise Unavailable(
        f"{backend} is not installed",
        why=f"the backend {backend} runs models with it",
        next=f"{install(backend)}   or --python {backend}=PATH",
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


# Several copies of a program at the same time.


def usable() -> list[int]:
    """CPUs that this process may run on."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return list(range(os.cpu_count() or 1))


def room() -> int:
    """CPUs that processes of this machine may keep busy: the usable ones, or a container's quota of them."""
    cpus, quota = len(usable()), system_files.cpu_quota("/")
    return cpus if quota is None else min(cpus, max(1, int(quota)))


def cpus_of(variant: Variant) -> list[list[int]]:
    """CPUs of each instance of a variant; [] where it runs once."""
    number = variant.options.get("instances", 1)
    return placed(number, variant.threads or 1, usable()) if isinstance(number, int) and number > 1 else []


def with_instances(request: BenchRequest, planned: Sequence[Variant]) -> tuple[list[Variant], list[Finding]]:
    """Each variant with each number of instances, and a finding on those that there are no CPUs for.

    Threads that nobody set are the usable CPUs, shared out.

    Raises:
        UsageError: no number of them fits.
    """
    if not request.instances:
        return list(planned), []
    cpus = room()
    made, left_out = [], []
    for variant in planned:
        for number in request.instances:
            threads = variant.threads or max(1, cpus // number)
            if number * threads > cpus and number > 1:
                left_out.append(f"{number} x {threads}")
                continue
            # One instance stays as it is without: its threads go where the system puts them.
            options = {**variant.options, **({"instances": number} if number > 1 else {})}
            made.append(structs.replace(variant, threads=threads, options=options))
    if not made:
        raise UsageError(
            f"{' and '.join(left_out)} threads do not fit on {count(cpus, 'CPU')}",
            why="each instance needs CPUs of its own, or they would wait for each other",
            next="--instances 1,2 --threads 1",
        )
    sentence = f"instances x threads left out, more than {count(cpus, 'usable CPU')}: {', '.join(left_out)}"
    return made, [Finding(kind="instances/left_out", sentence=sentence)] if left_out else []


def check_instances(request: BenchRequest, *, in_memory: bool) -> None:
    """Check what a request says of instances, whatever its targets are.
    Raises UsageError: they cannot be measured so.
    """
    if not request.instances:
        return
    if in_memory:
        raise UsageError(
            "an object of this process cannot run in several instances",
            why="it exists once",
            next="name a function in a file: file.py:function",
        )
    if min(request.instances) < 1:
        raise UsageError(
            f"--instances {min(request.instances)} is impossible",
            why="at least one instance has to run",
            next="--instances 1,2",
        )
    if request.rate is not None:
        raise UsageError(
            "--instances and --rate do not go together",
            why="a rate is for one instance",
            next="leave one out",
        )
