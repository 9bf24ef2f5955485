"""A target in PyTorch as it is."""

from __future__ import annotations

from typing import Any

from laptime.backends.torch import place
from laptime.backends.torch.tensors import arrays
from laptime.measure.recorded_calls import Array
from laptime.tuning.catalogue.flush_denormal import MATTERS, SMALLEST_NORMAL
from laptime.tuning.inference import on_cuda
from laptime.tuning.inference.draft import by_position, keywords, opened, plain, structure_of
from laptime.tuning.inference.reference import Reference, facts_of_machine
from laptime.tuning.inference.samples import Sample

_KINDS = {"conv": "_ConvNd", "linear": "Linear", "batchnorm": "_BatchNorm", "attention": "MultiheadAttention"}


def reference(target: str, batch: int, sample: Sample | None, device: str = "cpu") -> Reference:
    """The target, loaded.

    Args:
        batch: items in a call; 0: as the inputs were given. sample: inputs in place of the target's own.
        device: as `laptime bench` names it; "auto" is a CUDA device where there is one, else the CPU.

    Raises:
        LaptimeError: it cannot be loaded.
    """
    import torch

    where = place.resolve(on_cuda.chosen(device))
    model = opened(target, sample, str(where))
    batch = batch or model.own_batch() or 1
    module, inputs = by_position(model, batch)
    any_batch = model.batch_leads()

    def run(given: list[Array]) -> list[Array]:
        with torch.no_grad():
            return arrays(module(*(torch.from_numpy(each).to(where) for each in given)))

    def outputs() -> list[str] | None:
        with torch.no_grad():
            return structure_of(plain(module(*inputs)))

    told = model.inputs_of(batch)
    return Reference(
        run=run,
        inputs_of=lambda size: arrays(by_position(model, size)[1]),
        batch=batch,
        any_batch=any_batch,
        varies=[bool(any_batch and each.ndim and each.shape[0] == batch) for each in inputs],
        keywords=keywords(model, batch),
        outputs=outputs,
        facts=(on_cuda.facts(where) if where.type == "cuda" else facts_of_machine() | _of_weights(module))
        | _kinds(module),
        threads=torch.get_num_threads(),
        words=told["shapes"],
        origin=told["origin"],
        libraries=model.libraries(),
        device=str(where),
        devices=model.devices() if where.type == "cuda" else (),
    )


def _kinds(module: Any) -> set[str]:
    """Facts on the modules in it."""
    classes = {each.__name__ for part in module.modules() for each in type(part).__mro__}
    return {fact for fact, name in _KINDS.items() if name in classes}


def _of_weights(module: Any) -> set[str]:
    """`denormals` where so many weights are below float32's normal range that a call is slow on them."""
    floats = [each for each in module.state_dict().values() if each.is_floating_point()]
    elements = sum(each.numel() for each in floats)
    denormal = sum(int(((each != 0) & (each.abs() < SMALLEST_NORMAL)).sum()) for each in floats)
    return {"denormals"} if denormal > MATTERS * elements else set()
