"""Turns a request into a plan: effective settings, variants, budget."""

from itertools import product
from typing import Any, NamedTuple

from msgspec import structs

from laptime.kit.errors import UsageError, refuse_not_positive, unknown
from laptime.kit.registry import load
from laptime.kit.text import closest
from laptime.launch import interpreter
from laptime.records.case import AS_GIVEN, Axis
from laptime.records.check import Finding
from laptime.records.plan import OPTIMIZERS, BenchRequest, Origin, Setting, Variant
from laptime.records.run import IN_MEMORY, Subject
from laptime.records.series import Regime
from laptime.targets import Program, Recipe, parse
from laptime.verbs.bench.variants import (
    check_backend,
    check_installed,
    check_instances,
    select_backends,
    with_instances,
)

DTYPES = ("float32", "bfloat16", "float16")
AS_IT_IS = "auto"  # the dtype that an object of this process has already
RECORDED = (
    *("preset", "batch", "dtype", "device", "backends", "python", "threads", "channels_last", "compile"),
    *("train", "regimes", "rate", "precision", "budget", "processes", "timeout", "options", "shapes", "seed"),
    "save",
)
"""Fields of a request that are recorded in the run, in this order."""


class Preset(NamedTuple):
    """The values that a preset sets."""

    precision: float  # half-width of the interval asked for, as a share
    seconds: float  # measuring time of one case in one process
    processes: int  # fresh processes of a single variant; comparisons take at least `compared`
    compared: int


PRESETS = {
    "quick": Preset(precision=0.05, seconds=1.0, processes=1, compared=2),
    "standard": Preset(precision=0.02, seconds=4.0, processes=1, compared=3),
    "strict": Preset(precision=0.01, seconds=10.0, processes=3, compared=5),
}
MANY = 16
"""Processes of a comparison at most. Those of equal programs are 2 to 3 % apart (decision 0057)."""
SHORTER, LONGER = 4, 4.5
"""Seconds measured in the first process over those in one that is added; and the time that a comparison may
take with these, over the first process's."""
ENOUGH = 7  # processes with which a comparison that is clear ends; fewer agree by luck too often
PACED_SHARE = 0.5  # share of the budget for paced calls beside other regimes: a queue needs long stretches


class Plan(NamedTuple):
    settings: dict[str, Setting]  # effective values with their origin, for the record
    variants: list[Variant]  # one worker process each (times `processes`)
    notes: list[Finding]  # what was asked for and is left out
    subjects: list[Subject]
    # Empty while a search is still to find them. If none was asked for it is [1], and each worker takes
    # the batch that its inputs have.
    batches: list[int]
    precision: float  # as effective, like the two that follow
    budget: float  # seconds, all cases together
    processes: int
    paced_share: float  # of the budget; 0 without a rate, 1 if only paced calls are asked for


def plan(request: BenchRequest, *, in_memory: bool = False) -> Plan:
    """Check a request and fill in what it leaves open.
    Raises UsageError: a value is impossible; nothing has been measured yet."""
    if not request.targets:
        raise UsageError(
            "nothing to measure", why="no target was named", next="laptime bench torchvision:resnet18"
        )
    check(request, in_memory=in_memory)
    preset = PRESETS[request.preset]
    recipes = [_stand_in(target) if in_memory else parse(target) for target in request.targets]
    paired = select_backends(recipes, request.backends)
    check_installed(paired.pairs, request.python)
    variants, left_out = with_instances(request, _variants(request, paired.pairs))
    for python in {variant.python: None for variant in variants if variant.python}:
        interpreter.environment(python)  # says now what it lacks
    if request.train:
        _check_training(request.train, variants)
    batches = [1] if request.batch is None else request.batch if isinstance(request.batch, list) else []
    # An object of this process has one process only, however often it is asked.
    several = len(variants) > 1
    most_processes = request.processes or (preset.compared if several else preset.processes)
    processes = 1 if in_memory else most_processes
    budget = request.budget or preset.seconds * len(variants) * max(1, len(batches)) * processes
    precision = request.precision or preset.precision
    asked = set(request.regimes) or {Regime.PACED, Regime.ISOLATED}
    paced = 0.0 if Regime.PACED not in asked else 1.0 if asked == {Regime.PACED} else PACED_SHARE
    return Plan(
        settings=_settings(request, precision=precision, budget=budget, processes=processes),
        variants=_without_twins(variants),
        # Backends that were looked up, not asked for, are missed by nobody.
        notes=[*([] if request.origins.get("backends") == "machine" else paired.left_out), *left_out],
        subjects=[Subject(target=r.target, source=r.source, sha256=r.sha256) for r in recipes],
        batches=batches,
        precision=precision,
        budget=budget,
        processes=processes,
        paced_share=paced if request.rate else 0.0,
    )


def plan_processes(
    plan: Plan, done: int, *, is_clear: bool, may_add: bool, fewest: float, loading: float, left: float | None
) -> Plan:
    """The plan with the processes that a comparison still needs after the first `done` of them.

    is_clear: whether it needs no more than `ENOUGH`. may_add: whether many short ones follow the first one,
    as they say more than few long ones. fewest: seconds that one has to measure at least. loading: seconds
    that it takes besides. left: seconds; None: what the budget leaves to measure."""
    each, number = plan.budget / plan.processes, plan.processes
    if done == 1 and may_add:
        short = max(each / SHORTER, fewest)
        fit = int((plan.budget - each) / short if left is None else left / (short + loading))
        if (more := min(MANY, done + fit)) > number:
            number, each = more, short
    elif is_clear and may_add and done >= ENOUGH - 1:
        number = min(done + 1, number)
    return plan._replace(processes=number, budget=each * number)


def _variants(request: BenchRequest, pairs: list[tuple[Recipe, str]]) -> list[Variant]:
    unset: list[int | None] = [None]
    _check_options(request, [backend for _, backend in pairs])
    return [
        Variant(
            target=recipe.target,
            backend=backend,
            python=request.python.get(backend, ""),
            device=request.device,
            dtype=dtype,
            threads=threads,
            channels_last=request.channels_last,
            compile=request.compile,
            train=request.train,
            seed=request.seed,
            options=options,
        )
        for recipe, backend in pairs
        for dtype in request.dtype
        for threads in ([*request.threads] or unset)
        for options in _options(request, backend)
    ]


def _options(request: BenchRequest, backend: str) -> list[dict[str, Any]]:
    """Every combination of those values that this backend has an option for."""
    mine = {name: values for name, values in request.options.items() if _is_option(name, backend)}
    shape = {"shape": request.shapes} if request.shapes else {}
    return [dict(zip(mine, values, strict=True)) | shape for values in product(*mine.values())]


def _load_options(backend: str) -> dict[str, str]:
    """A backend's own settings and what they mean; a name that ends in a dot stands for all that begin so."""
    options: dict[str, str] = getattr(load("backends", backend), "OPTIONS", {})
    return options


def _is_option(name: str, backend: str) -> bool:
    return any(
        name == option or (option.endswith(".") and name.startswith(option))
        for option in _load_options(backend)
    )


def _check_options(request: BenchRequest, backends: list[str]) -> None:
    for name in request.options:
        if any(_is_option(name, backend) for backend in backends):
            continue
        options = sorted({option for backend in backends for option in _load_options(backend)})
        near = closest(name, options)
        distinct = list(dict.fromkeys(backends))
        raise UsageError(
            f"{' and '.join(distinct)} {'has' if len(distinct) == 1 else 'have'} no option called {name!r}",
            why=f"known: {', '.join(options)}" if options else "there are none",
            next=f"did you mean --option {near}={request.options[name][0]}?"
            if near
            else "laptime bench --help",
        )


def _settings(
    request: BenchRequest, *, precision: float, budget: float, processes: int
) -> dict[str, Setting]:
    """Effective values for the record, each with where it came from."""
    filled: dict[str, Any] = {"precision": precision, "budget": budget, "processes": processes}
    filled["batch"] = [1] if request.batch is None else request.batch
    origins: dict[str, Origin] = {
        **dict.fromkeys(("precision", "budget", "processes"), "preset"),
        "regimes": "machine",
        **request.origins,
    }
    values = {name: filled.get(name, getattr(request, name)) for name in RECORDED}
    if request.instances:
        values["instances"] = request.instances
    return {
        name: Setting(value=None if value in ("", [], {}) else value, origin=origins.get(name, "default"))
        for name, value in values.items()
    }


def _stand_in(target: str) -> Recipe:

    def build(batch: int) -> Program:
        raise UsageError(f"{target} exists only in the process that made it")

    return Recipe(target=target, kind="object", build=build, source=IN_MEMORY)


def check(request: BenchRequest, *, in_memory: bool = False) -> None:
    """Check what a request says, whatever its targets are.
    Raises UsageError: a value is impossible. Unavailable: a backend is not installed."""
    request.check()
    for python in request.python.values():
        interpreter.path_of(python)
    for backend in request.backends:
        check_backend(backend, request.python)
    if isinstance(request.batch, list) and (not request.batch or min(request.batch) < 1):
        what = f"batch {min(request.batch, default=0)} is impossible"
        raise UsageError(what, why="a call needs at least one item", next="--batch 1,8   or   --batch auto")
    for dtype in request.dtype:
        if dtype not in DTYPES and not (in_memory and dtype == AS_IT_IS):
            raise unknown("dtype", dtype, DTYPES, option="--dtype", example="--dtype float32,bfloat16")
    for regime in request.regimes:
        if regime not in list(Regime):
            raise unknown("regime", regime, Regime, option="--regime", example="--regime isolated,saturated")
    for regime in map(Regime, request.regimes):
        if regime.needs_rate and not request.rate:
            what = f"the {regime} regime needs a rate"
            raise UsageError(what, why="calls are made on a schedule", next=f"--regime {regime} --rate 20")
    refuse_not_positive(
        ("--precision", request.precision, "1%"),
        ("--budget", request.budget, "60s"),
        ("--rate", request.rate, "20"),
        ("--timeout", request.timeout, "120s"),
        ("--processes", request.processes, "3"),
        ("--threads", min(request.threads, default=None), "1,2"),
    )
    if request.precision is not None and request.precision >= 1:
        why = "the half-width of the interval is a share of the value, below 100 %"
        raise UsageError(f"--precision {request.precision:g} is impossible", why=why, next="--precision 1%")
    check_instances(request, in_memory=in_memory)


def _check_training(optimizer: str, variants: list[Variant]) -> None:
    if optimizer not in OPTIMIZERS:
        example = f"--train {OPTIMIZERS[0]}"
        raise unknown("optimizer", optimizer, OPTIMIZERS, option="--train", example=example)
    for variant in variants:
        if not getattr(load("backends", variant.backend), "TRAINS", False):
            raise UsageError(
                f"{variant.target} cannot be trained by the {variant.backend} backend",
                why="it measures inference only",
                next="leave --train out, or name a torch model",
            )


def _without_twins(variants: list[Variant]) -> list[Variant]:
    """The same target twice is an A/A comparison: the second gets a mark, so that keys stay unique."""
    times: dict[str, int] = {}
    distinct = []
    for variant in variants:
        mark = repr(variant)
        times[mark] = times.get(mark, 0) + 1
        if times[mark] > 1:
            variant = structs.replace(variant, options={**variant.options, "again": times[mark]})
        distinct.append(variant)
    return distinct


def axes_of(variant: Variant, batch: int | None, *, device: str, held: dict[str, int]) -> dict[str, Axis]:
    """Axis values of a case, device and dtype as the worker told them. batch: items in a call; None where
    nothing tells. held: number of the model's tensors by dtype; names the dtype if the variant left it
    open."""
    size = AS_GIVEN if batch is None else batch
    axes: dict[str, Axis] = {"batch": size, **variant.axes(), "device": device}
    floats = {dtype: number for dtype, number in held.items() if "float" in dtype}
    if variant.dtype == AS_IT_IS and floats:
        axes["dtype"] = max(floats, key=lambda dtype: floats[dtype])
    if "again" in variant.options:
        axes["again"] = variant.options["again"]
    return axes
