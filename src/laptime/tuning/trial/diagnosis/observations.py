"""The observations of a loop in a diagnosing trial, and the `LoopProfile` that follows from them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean, median
from typing import Any

from laptime.kit import registry
from laptime.tuning import optimization
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.trial import facts, source_sites
from laptime.tuning.trial.batches import CachedBatch, nbytes, padding
from laptime.tuning.trial.diagnosis import ablation_blocks
from laptime.tuning.trial.diagnosis.ablation_blocks import TimedBlock
from laptime.tuning.trial.diagnosis.sync_detector import DeviceTime, SyncDetector

SWITCHES = ("lr", "weight_decay", "momentum", "betas", "eps", "fused", "foreach", "capturable", "amsgrad")
"""Of an optimizer's first group."""
LOADER_SETTINGS = (
    *("num_workers", "batch_size", "pin_memory", "persistent_workers", "prefetch_factor", "drop_last"),
)
LOADER_OBJECTS = ("sampler", "batch_sampler", "dataset", "collate_fn")


class Observations:
    """The observations since steps are found by their present source.

    Attributes:
        hooks: the loop's objects. facts: names that the loop itself has shown.
        settled: the first steps. blocks: those that have ended or run. settled_steps: how many.
        cached: the last whole batch by id of its loader; loaders: these loaders, by id.
        integers: integer tensors of some batches, for their padding. shapes: of batches, without the leading
            dimension. libraries: packages that run the loop, "" for the user's own code.
        closure: an optimizer calls the model. autocast: it was on where a model was called.
        backwards: passes in the first steps. sites: where the loop does things.
        loader: what `loader_probe.probe` has found out; None before it ran. peak: bytes before anything
        risky. notes: what could not be found out.
    """

    def __init__(self, hooks: Any, notes: list[str]) -> None:
        self.hooks, self.notes = hooks, notes
        self.facts: set[str] = set()
        self.settled = TimedBlock("whole", -1)
        self.blocks: list[TimedBlock] = []
        self.settled_steps = 0
        self.cached: dict[int, CachedBatch] = {}
        self.loaders: dict[int, Any] = {}
        self.integers: list[list[Any]] = []
        self.shapes: set[tuple[Any, ...]] = set()
        self.libraries: set[str] = set()
        self.closure = self.autocast = self.accelerator = False
        self.backwards = 0
        self.sites = source_sites.SiteCounts()
        self.syncs, self.device_time = SyncDetector(), DeviceTime()
        self.loader: dict[str, Any] | None = None
        self.peak: int | None = None

    def training_loader(self) -> Any:
        """The loader that training takes most from: the first of training that has given a batch."""
        training = (loader for loader in self.hooks.loaders if id(loader) in self.loaders)
        return next(training, next(iter(self.loaders.values()), None))


def loop_profile(observed: Observations) -> LoopProfile:
    """The profile. What cannot be found out is left out, with a note."""
    notes = list(observed.notes)
    values: dict[str, Any] = {"details": {}}
    for find in (_times, _machine, _loader, _training, _sites):
        with _noted(notes, f"not diagnosed ({find.__name__.strip('_')}): "):
            find(observed, values, notes)
    values["facts"] = frozenset(_facts(observed, values, notes))
    details: dict[str, Any] = {}
    for name in registry.names("optimizations"):
        with _noted(notes, f"{name} could not look at the loop: "):
            look = optimization.load(name).look
            if look is not None:
                details[name] = look(observed.hooks)
    values["details"] |= {"operators": observed.syncs.operators()} | details
    return LoopProfile(**values, notes=tuple(notes))


@contextmanager
def _noted(notes: list[str], what: str) -> Iterator[None]:
    """Leave out what cannot be found out, with a note: one thing unknown is no reason to know nothing."""
    try:
        yield
    except Exception as error:  # a loop may be anything
        notes.append(what + f"{type(error).__name__}: {error}"[:200])


def _times(observed: Observations, values: dict[str, Any], notes: list[str]) -> None:
    blocks = [block for block in observed.blocks if block.seconds]
    whole = [block for block in blocks if block.variant == "whole"]
    if not whole:
        blocks = [observed.settled, *blocks]
        notes.append("the script ended before its steps had settled: times are of its first steps")
    elif sum(len(block.seconds) for block in whole) < 2:
        blocks = [observed.settled.last(), *blocks]  # steps of seconds: one of those that settled, too
    whole = [block for block in blocks if block.variant == "whole"]
    seconds = ablation_blocks.what_if(blocks)
    parts = ablation_blocks.mean_parts(blocks, "synchronised") or ablation_blocks.mean_parts(blocks, "whole")
    workers = any(getattr(loader, "num_workers", 0) for loader in observed.loaders.values())
    if not observed.accelerator and not workers and (found := ablation_blocks.contradiction(seconds, parts)):
        notes.append(found)
    if not observed.accelerator and not observed.closure:
        seconds = {**ablation_blocks.derive(seconds, parts), **seconds}
    for variant in ("lint", "synchronised", "traced"):
        seconds.pop(variant, None)
    values["step"] = seconds.get("whole", 0.0)
    values["what_if"] = seconds
    values["shares"] = ablation_blocks.shares(
        seconds, parts, accelerator=observed.accelerator, workers=workers
    )
    hosts = [block.host for block in whole if block.host is not None]
    values["enqueue"] = median(hosts) if hosts else None
    values["noise"] = ablation_blocks.noise(blocks)
    if observed.device_time.per_step is not None:
        values["details"]["busy"] = observed.device_time.per_step
    samples = [count for block in [observed.settled, *whole] for count in block.samples]
    values["batch"] = max(1, round(median(samples))) if samples else 1
    faults = [count for block in observed.blocks if block.variant == "whole" for count in block.faults]
    values["details"]["page_faults"] = median(faults) if faults else None


def _machine(observed: Observations, values: dict[str, Any], notes: list[str]) -> None:
    import torch

    values["device"] = facts.device_of(observed.hooks.models)
    kind = values["device"].partition(":")[0]
    values |= {"cpus": facts.cpus(), "threads": torch.get_num_threads()}
    values |= {"shm": facts.shm(), "memory": facts.memory(), "peak": observed.peak or facts.peak(kind)}
    values["device_memory"] = torch.cuda.mem_get_info()[0] if kind == "cuda" else None


def _loader(observed: Observations, values: dict[str, Any], notes: list[str]) -> None:
    loader = observed.training_loader()
    if loader is None:
        return
    probed = {name: value for name, value in (observed.loader or {}).items() if name != "random"}
    values["details"] |= probed.pop("details", {})
    values |= probed
    values["loader"] = {name: getattr(loader, name) for name in LOADER_SETTINGS if hasattr(loader, name)}
    for name in LOADER_OBJECTS:
        part = getattr(loader, name, None)
        qualified = None if part is None else getattr(part, "__qualname__", type(part).__qualname__)
        values["loader"][name] = qualified
    if id(loader) in observed.cached:
        values["batch_bytes"] = nbytes(observed.cached[id(loader)].batch)
    shares = [share for batch in observed.integers if (share := padding(batch)) is not None]
    values["padding"] = fmean(shares) if shares else None


def _training(observed: Observations, values: dict[str, Any], notes: list[str]) -> None:
    by_id = {id(parameter): parameter for model in observed.hooks.models for parameter in model.parameters()}
    parameters = list(by_id.values())
    values["parameters"] = sum(parameter.numel() for parameter in parameters)
    values["tensors"] = len(parameters)
    gradients = [parameter for parameter in parameters if parameter.requires_grad]
    states = [dict(state) for optimizer in observed.hooks.optimizers for state in optimizer.state.values()]
    values["state_bytes"] = nbytes(parameters) + nbytes(gradients) + nbytes(states)
    if observed.hooks.optimizers:
        first = observed.hooks.optimizers[0]
        group = first.param_groups[0]
        switches = {name: group[name] for name in SWITCHES if name in group}
        numbers = {name: each.item() if hasattr(each, "item") else each for name, each in switches.items()}
        values["optimizer"] = {"class": type(first).__name__, **numbers}


def _sites(observed: Observations, values: dict[str, Any], notes: list[str]) -> None:
    constructed = [call.site for call in observed.hooks.calls if call.site is not None]
    models = source_sites.of_models(observed.hooks.calls, observed.hooks.models)
    values["sites"] = (*constructed, *models, *observed.sites.sites(max(1, observed.settled_steps)))
    values["syncs"] = tuple(observed.syncs.sites())


def _facts(observed: Observations, values: dict[str, Any], notes: list[str]) -> set[str]:
    """All facts; a group that cannot be found out is left out, with a note."""
    hooks, loader = observed.hooks, observed.training_loader()
    kind = values.get("device", "cpu").partition(":")[0]
    names = observed.facts | {kind}
    groups: list[Callable[[], set[str]]] = [
        lambda: facts.fast(kind),
        lambda: facts.of_models(hooks.models),
        lambda: facts.of_optimizers(hooks.optimizers),
        lambda: facts.of_loader(loader) if loader is not None else set(),
        facts.of_torch,
    ]
    for group in groups:
        with _noted(notes, "a fact is unknown: "):
            names |= group()
    steps, optimizers = observed.settled_steps, max(1, len(hooks.optimizers))
    is_full = all(str(each.dtype) == "torch.float32" for model in hooks.models for each in model.parameters())
    conditions = {
        "gcc": facts.compiler() is not None,
        "autocast": observed.autocast or (observed.syncs.halves and is_full),
        "checkpointing": observed.syncs.checkpointing,
        "attention": observed.syncs.attention,
        "compiled": facts.sum_compiled() > 0,
        "closure": observed.closure,
        "accumulation": steps > 0 and observed.backwards / steps / optimizers >= 2 and not observed.closure,
        "in_library": bool(observed.libraries) and "" not in observed.libraries,
        "random_transforms": bool((observed.loader or {}).get("random")),
        "varying_shapes": len(observed.shapes) > len(observed.loaders),
        "syncs_every_step": any(site.count >= 0.9 for site in values.get("syncs", ())),
    }
    return names | {name for name, holds in conditions.items() if holds}
