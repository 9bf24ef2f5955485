"""The variants of each target: with which backends (the requested ones that can, otherwise the one that the
target implies), and in how many instances at the same time, if there are CPUs for them."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import NamedTuple

from msgspec import structs

from laptime.analysis.architecture import architecture, plain
from laptime.kit import registry, system_files
from laptime.kit.errors import LaptimeError, TargetError, Unavailable, UsageError
from laptime.kit.extras import install
from laptime.kit.registry import load
from laptime.kit.text import closest, count
from laptime.launch import fresh_call
from laptime.launch.instances import deal_cpus
from laptime.records.check import Finding
from laptime.records.plan import BenchRequest, Variant
from laptime.targets import Recipe, parse


class Selection(NamedTuple):
    """Pairs to measure, in the order of targets and then of backends; and findings on what is left out."""

    pairs: list[tuple[Recipe, str]]
    left_out: list[Finding]


def select_backends(recipes: list[Recipe], backends: list[str]) -> Selection:
    """Pair every target with the backends that can run it; without backends, with the one it implies.
    Raises UsageError: none of the backends asked for can run any of the targets."""
    if not backends:
        return Selection([(recipe, recipe.backend) for recipe in recipes], [])
    fitting = {id(recipe): [name for name in backends if fits(recipe, name)] for recipe in recipes}
    if not any(fitting.values()):
        raise UsageError(
            f"{_join(backends)} cannot run {_join([recipe.target for recipe in recipes])}",
            why="; ".join(f"{name} runs targets of the kinds {_join(_kinds(name))}" for name in backends),
            next=f"--backend {recipes[0].backend}",
        )
    pairs = [(recipe, name) for recipe in recipes for name in fitting[id(recipe)] or [recipe.backend]]
    return Selection(
        pairs, [note for recipe in recipes if (note := _note(recipe, backends, fitting[id(recipe)]))]
    )


def check_installed(pairs: list[tuple[Recipe, str]], elsewhere: Mapping[str, str]) -> None:
    """Check that backends and the packages of targets are installed, for those that this interpreter loads.
    elsewhere: backends that have an interpreter of their own.
    Raises Unavailable: one is missing."""
    for recipe, backend in pairs:
        if recipe.kind != "object":  # the process that made it has what it needs
            check_backend(backend, elsewhere)
        # What the target needs, and what another framework needs to get it.
        is_exported = backend != recipe.backend and not recipe.file and recipe.kind != "object"
        exporters = getattr(load("backends", backend), "EXPORTS_WITH", ()) if is_exported else ()
        for package in (*recipe.packages, *exporters) if backend not in elsewhere else ():
            if find_spec(package) is None:
                raise Unavailable(
                    f"{package} is not installed",
                    why=f"the target {recipe.target} needs it",
                    next=f"{install(recipe.backend, backend)}   or --python {backend}=PATH",
                )


def check_backend(backend: str, elsewhere: Mapping[str, str]) -> None:
    """Check that a backend is installed, unless it has an interpreter of its own.
    Raises Unavailable: it is not."""
    if backend in elsewhere or load("backends", backend).available() or find_spec(backend) is not None:
        return
    what, why = f"{backend} is not installed", f"the backend {backend} runs models with it"
    raise Unavailable(what, why=why, next=f"{install(backend)}   or --python {backend}=PATH")


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
        sentence=f"{recipe.target} is measured with {_join(runs)} only: {_join(missing)} cannot run it",
        evidence={"target": recipe.target, "runs": runs, "left_out": missing},
    )


def _join(names: list[str]) -> str:
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
    """CPUs of each instance of a variant; [] if it runs once."""
    number = variant.options.get("instances", 1)
    return deal_cpus(number, variant.threads or 1, usable()) if isinstance(number, int) and number > 1 else []


def with_instances(request: BenchRequest, planned: Sequence[Variant]) -> tuple[list[Variant], list[Finding]]:
    """Each variant with each number of instances, and a finding on those that there are no CPUs for.

    Threads that are not set are the usable CPUs, shared out.

    Raises UsageError: no number of them fits."""
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
    Raises UsageError: they cannot be measured so."""
    if not request.instances:
        return
    if in_memory:
        what = "an object of this process cannot run in several instances"
        raise UsageError(what, why="it exists once", next="name a function in a file: file.py:function")
    if min(request.instances) < 1:
        what = f"--instances {min(request.instances)} is impossible"
        raise UsageError(what, why="at least one instance has to run", next="--instances 1,2")
    if request.rate is not None:
        why = "a rate is for one instance"
        raise UsageError("--instances and --rate do not go together", why=why, next="leave one out")


# `--same NAME,...`: one architecture in every installed framework that has it.


OWN = ("torchvision", "keras")  # a framework's own collection of models comes first
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

    names: `efficientnet_b0`, `EfficientNetB0`; several behind commas. backends: to run them with; none takes
    all that are installed. python: interpreters by backend.
    Raises TargetError: no framework here knows one of them. Unavailable: only one can run it, so that there
    is nothing to compare."""
    python = python or {}
    known = [name for name in registry.names("backends") if name != "null"]
    here = [name for name in known if name in python or registry.load("backends", name).available()]
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
        missing = ", ".join(name for name in known if name not in here)
        raise Unavailable(
            f"only {able[0]} can run {targets[0]} here",
            why=f"a comparison needs another framework; {missing} are not installed",
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
        every = {
            plain(target.partition(":")[2]): target for targets in collections.values() for target in targets
        }
        near = closest(plain(name), every)
        searched = ", ".join(kind for kind, targets in collections.items() if targets)
        raise TargetError(
            f"no framework here knows a model called {name!r}",
            why=f"looked among {len(every):,} models of {searched}"
            if searched
            else "no collection of models is installed",
            next=f"did you mean --same {every[near].partition(':')[2]}?" if near else "laptime doctor",
        )
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


def _collection(kind: str, python: Mapping[str, str]) -> list[str]:
    """Targets of a kind; none if the framework is installed without the package that has them."""
    known, of = "laptime.targets:list_known", python.get(_recipe(kind).backend, "")
    try:
        targets: list[str] = fresh_call.call(known, {"kind": kind}, timeout=_TIMEOUT, python=of)
    except LaptimeError:
        return []
    return targets
