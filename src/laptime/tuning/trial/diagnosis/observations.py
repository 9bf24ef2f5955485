"""What a diagnosing trial has seen, as fields of `loop_profile.LoopProfile`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from laptime.kit import registry
from laptime.tuning import optimization
from laptime.tuning.trial import source_sites
from laptime.tuning.trial.batches import described, nbytes, padding, size
from laptime.tuning.trial.diagnosis import ablation_blocks, facts

if TYPE_CHECKING:
    from laptime.tuning.trial.diagnosis.ablation_runner import AblationRunner

SWITCHES = ("lr", "weight_decay", "momentum", "betas", "eps", "fused", "foreach", "capturable", "amsgrad")
DENORMAL = 1.1754943508222875e-38
"""The smallest normal float32."""


def has_room(kind: str, limit: int | None) -> bool:
    """Whether twice the memory of now would fit: of the device, or of this process under its limit."""
    used = facts.peak(kind) or 0
    if kind == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info()
        room = free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return used < room and (limit is None or 2 * used < limit)
    free_now = facts.memory()
    return (free_now is None or used < 0.8 * free_now) and (limit is None or 2 * used < limit)


def training_loader(seen: AblationRunner) -> Any:
    """The loader that training takes most from: the first of the hooks' that has given a batch."""
    known = seen.loaders
    return next((each for each in seen.hooks.loaders if id(each) in known), next(iter(known.values()), None))


def loop_profile(seen: AblationRunner) -> dict[str, Any]:
    """The whole document. What cannot be found out is left out, with a note."""
    found: dict[str, Any] = {"notes": list(seen.notes)}
    for ask in (_times, _machine, _loader, _training, _places):
        try:
            ask(seen, found)
        except Exception as error:  # one thing unknown is no reason to know nothing
            what = f"{type(error).__name__}: {error}"[:200]
            found["notes"].append(f"not diagnosed ({ask.__name__.strip('_')}): {what}")
    found["facts"] = sorted(_facts(seen, found))
    found.setdefault("details", {}).update(_details(seen) | _looks(seen, found["notes"]))
    return found


def _times(seen: AblationRunner, found: dict[str, Any]) -> None:
    blocks = [block for block in seen.taken if block.seconds]
    if not any(block.mode == "whole" for block in blocks):
        blocks = [seen.settled, *blocks]
        found["notes"].append("the script ended before its steps had settled: times are of its first steps")
    elif sum(len(block.seconds) for block in blocks if block.mode == "whole") < 2:
        blocks = [seen.settled.last(), *blocks]  # steps of seconds: one of those that settled, too
    seconds = ablation_blocks.what_if(blocks)
    parts = ablation_blocks.parts(blocks, "synchronised") or ablation_blocks.parts(blocks, "whole")
    if not seen.accelerator and not seen.closure:
        seconds = {**ablation_blocks.derived(seconds, parts), **seconds}
    seconds.pop("lint", None)
    seconds.pop("synchronised", None)
    seconds.pop("traced", None)
    found["step"] = seconds.get("whole", 0.0)
    found["what_if"] = seconds
    workers = any(getattr(each, "num_workers", 0) for each in seen.loaders.values())
    found["shares"] = ablation_blocks.shares(seconds, parts, accelerator=seen.accelerator, workers=workers)
    hosts = [block.host for block in blocks if block.mode == "whole" and block.host is not None]
    found["enqueue"] = median(hosts) if hosts else None
    found["noise"] = ablation_blocks.noise(blocks)
    if seen.busy.each is not None:
        found["details"] = {"busy": seen.busy.each}
    samples = [each for block in [seen.settled, *blocks] for each in block.samples if block.mode == "whole"]
    found["batch"] = max(1, round(median(samples))) if samples else 1


def _machine(seen: AblationRunner, found: dict[str, Any]) -> None:
    import torch

    found["device"] = facts.device_of(seen.hooks.models)
    kind = found["device"].partition(":")[0]
    found.update(cpus=facts.cpus(), threads=torch.get_num_threads(), shm=facts.shm(), memory=facts.memory())
    found["peak"] = seen.peak or facts.peak(kind)
    found["device_memory"] = torch.cuda.mem_get_info()[0] if kind == "cuda" else None


def _loader(seen: AblationRunner, found: dict[str, Any]) -> None:
    loader = training_loader(seen)
    if loader is None:
        return
    asked = dict(seen.asked or {})
    asked.pop("random", None)
    found.update(asked)
    names = ("num_workers", "batch_size", "pin_memory", "persistent_workers", "prefetch_factor", "drop_last")
    found["loader"] = {name: getattr(loader, name) for name in names if hasattr(loader, name)}
    for name in ("sampler", "batch_sampler", "dataset", "collate_fn"):
        each = getattr(loader, name, None)
        found["loader"][name] = (
            getattr(each, "__qualname__", type(each).__qualname__) if each is not None else None
        )
    kept = seen.kept.get(id(loader))
    if kept is not None:
        found["batch_bytes"] = nbytes(kept.batch)
        found.setdefault("details", {})["batch"] = described(kept.batch)
    shares = [share for batch in seen.batches if (share := padding(batch)) is not None]
    found["padding"] = fmean(shares) if shares else None


def _training(seen: AblationRunner, found: dict[str, Any]) -> None:
    parameters = {id(each): each for model in seen.hooks.models for each in model.parameters()}
    own = list(parameters.values())
    found["parameters"] = sum(each.numel() for each in own)
    found["tensors"] = len(own)
    bytes_of = sum(each.numel() * each.element_size() for each in own)
    gradients = sum(each.numel() * each.element_size() for each in own if each.requires_grad)
    state = sum(
        nbytes(dict(state)) for optimizer in seen.hooks.optimizers for state in optimizer.state.values()
    )
    found["state_bytes"] = bytes_of + gradients + state
    if seen.hooks.optimizers:
        first = seen.hooks.optimizers[0]
        group = first.param_groups[0]
        switches = {name: _plain(group[name]) for name in SWITCHES if name in group}
        found["optimizer"] = {"class": type(first).__name__, **switches}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _places(seen: AblationRunner, found: dict[str, Any]) -> None:
    made = [call.site for call in seen.hooks.calls if getattr(call, "site", None) is not None]
    models = source_sites.of_models(seen.hooks.calls, seen.hooks.models)
    found["sites"] = [*made, *models, *seen.places.sites(max(1, seen.counted))]
    found["syncs"] = seen.lint.sites()


def _facts(seen: AblationRunner, found: dict[str, Any]) -> set[str]:
    """All of them; a group that cannot be asked is left out, with a note."""
    hooks, names = seen.hooks, set(seen.watch.seen)
    loader = training_loader(seen)
    kind = found.get("device", "cpu").partition(":")[0]
    names.add(kind)
    asks: list[Callable[[], set[str]]] = [
        lambda: facts.fast(kind),
        lambda: facts.of_models(hooks.models),
        lambda: facts.of_optimizers(hooks.optimizers),
        lambda: facts.of_loader(loader) if loader is not None else set(),
        facts.of_torch,
    ]
    for ask in asks:
        try:
            names |= ask()
        except Exception as error:  # a model may be anything
            found["notes"].append(f"a fact is unknown: {type(error).__name__}: {error}"[:200])
    steps, optimizers = max(1, seen.counted), max(1, len(hooks.optimizers))
    is_full = all(str(each.dtype) == "torch.float32" for model in hooks.models for each in model.parameters())
    conditions = {
        "gcc": facts.compiler() is not None,
        "autocast": seen.autocast or (seen.lint.halves and is_full),
        "checkpointing": seen.lint.checkpointing,
        "attention": seen.lint.attention,
        "compiled": seen.is_compiled,
        "closure": seen.closure,
        "accumulation": seen.counted > 0 and seen.backwards / steps / optimizers >= 2 and not seen.closure,
        "in_library": bool(seen.libraries - {""}) and "" not in seen.libraries,
        "random_transforms": bool((seen.asked or {}).get("random")),
        "varying_shapes": len(seen.shapes) > len(seen.loaders),
        "syncs_every_step": any(each["count"] >= 0.9 for each in found.get("syncs", ())),
    }
    return names | {name for name, holds in conditions.items() if holds}


def _details(seen: AblationRunner) -> dict[str, Any]:
    """What single optimizations ask for."""
    whole = [block for block in seen.taken if block.mode == "whole"]
    faults = [each for block in whole for each in block.faults]
    found: dict[str, Any] = {
        "page_faults": median(faults) if faults else None,
        "gc_seconds": seen.gc_seconds / seen.all_steps if seen.all_steps else 0.0,
        "libraries": sorted(seen.libraries - {""}),
        "backwards_per_step": seen.backwards / seen.counted if seen.counted else 0.0,
        "zero_grad_seconds": seen.watch.zero_grad_seconds / seen.all_steps if seen.all_steps else 0.0,
        "loaders": [
            {"id": index, "batch": size(seen.kept[key].batch)} for index, key in enumerate(seen.loaders)
        ],
        "operators": seen.lint.work(),
        "blocks": ablation_blocks.as_json(seen.taken),
    }
    with suppress(Exception):
        found["denormal_share"] = denormals(seen.hooks.models)
    with suppress(Exception):
        found["attn_implementation"] = next(
            each.config._attn_implementation
            for model in seen.hooks.models
            for each in source_sites.unwrapped(model)
            if hasattr(getattr(each, "config", None), "_attn_implementation")
        )
    torch: Any = sys.modules["torch"]
    if seen.accelerator and torch.cuda.is_initialized():
        found["alloc_retries"] = int(torch.cuda.memory_stats().get("num_alloc_retries", 0))
    return found


def _looks(seen: AblationRunner, notes: list[str]) -> dict[str, Any]:
    """What optimizations see for themselves: their `look`, by name."""
    found: dict[str, Any] = {}
    for name in registry.names("optimizations"):
        try:
            look = optimization.load(name).look
            if look is not None:
                found[name] = look(seen.hooks)
        except Exception as error:  # a loop may be anything
            notes.append(f"{name} could not look at the loop: {type(error).__name__}: {error}"[:200])
    return found


def denormals(models: list[Any]) -> float:
    """Share of elements of float32 parameters and gradients that are denormal: not 0, below 2^-126."""
    import torch

    count = total = 0
    for model in models:
        for parameter in model.parameters():
            for each in (parameter.detach(), parameter.grad):
                if each is None or each.dtype != torch.float32 or each.device.type != "cpu":
                    continue
                small = each.abs()
                count += int(((small > 0) & (small < DENORMAL)).sum())
                total += each.numel()
    return count / total if total else 0.0
