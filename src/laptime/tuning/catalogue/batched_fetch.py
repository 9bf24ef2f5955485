"""Rows of a TensorDataset are fetched a batch at a time instead of one by one.

torch itself asks a dataset that has `__getitems__` for a whole batch; a TensorDataset has none.

Source: torch/utils/data/_utils/fetch.py, `_MapDatasetFetcher`; batches are identical.
Lies when: rows are large: then copying them takes the time, and that stays."""

from typing import Any

from laptime.tuning.catalogue import _inserted
from laptime.tuning.optimization import LoopProfile, Optimization, Options


def _is_tensors(dataset: Any) -> bool:
    """A TensorDataset, or a subset of one; not a class of the user's that is derived from it."""
    import torch

    while type(dataset) is torch.utils.data.Subset:
        dataset = dataset.dataset
    return type(dataset) is torch.utils.data.TensorDataset


def why_not(loop_profile: LoopProfile) -> str:
    is_tensors = loop_profile.details.get("batched_fetch")
    return "" if is_tensors else "the dataset is not a TensorDataset; others can have __getitems__ themselves"


def apply(loop: Any, options: Options) -> None:
    """Loaders of TensorDatasets that make batches in torch's default way."""

    def rewrite(call: Any) -> None:
        from laptime.tuning.catalogue._inserted.tensor_batches import TensorBatches

        has_batches = call.arguments.get("batch_sampler") or call.arguments.get("batch_size", 1)
        is_default = call.arguments.get("collate_fn") is None
        if has_batches and is_default and _is_tensors(call.arguments.get("dataset")):
            call.arguments.update(dataset=TensorBatches(call.arguments["dataset"]), collate_fn=list)

    loop.loader(rewrite)


def edit(script: Any, options: Options) -> None:
    """The class, the training loader's dataset in it, and `list` as what makes a batch."""
    _inserted.define(script, "tensor_batches")
    script.wrap_argument("loader", "dataset", "TensorBatches({})")
    script.set_arguments("loader", collate_fn="list")


OPTIMIZATION = Optimization(
    title="rows fetched a batch at a time",
    numerics="exact",
    saves={"data": 1.0},
    needs=frozenset({"loader", "map_dataset", "!custom_collate"}),
    conflicts=frozenset({"cache_dataset", "seed_by_sample"}),
    why_not=why_not,
    # Whether the training loader reads a TensorDataset.
    look=lambda hooks: any(_is_tensors(loader.dataset) for loader in hooks.loaders),
    example=True,
    apply=apply,
    edit=edit,
)
