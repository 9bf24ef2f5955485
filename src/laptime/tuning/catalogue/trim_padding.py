"""Trailing columns in which every sequence of a batch has padding only are cut before the batch is used.

Cut to the longest sequence of the batch, up to a multiple of 8, in all tensors that begin with the same two
dimensions.

Source: Hugging Face course, "Dynamic padding"; NVIDIA Deep Learning Performance Guide (multiples of 8).
Lies when: the model needs a fixed length, or looks at padding without a mask (a mean over all positions): the
gate sees it. Dropout draws other numbers for another shape."""

from typing import Any

from laptime.tuning.catalogue import _bounds, _inserted
from laptime.tuning.optimization import LoopProfile, Optimization, Options

SAMPLES = 64  # samples that are looked at for the padding, at most


def look(hooks: Any) -> dict[str, Any]:
    """{"pad": the number that rows most often end with, "saves": share of the columns that go}; {} without
    any.

    Reads one batch of the first loader once more."""
    import torch

    from laptime.tuning.catalogue._inserted.trim_padding import _tensors_of, trim_padding
    from laptime.tuning.trial.diagnosis.loader_probe import randomness_kept

    loader = hooks.loaders[0] if hooks.loaders else None
    if loader is None or isinstance(loader.dataset, torch.utils.data.IterableDataset):
        return {}
    with randomness_kept():
        try:
            count = min(len(loader.dataset), int(loader.batch_size or 8), SAMPLES)
            batch = loader.collate_fn([loader.dataset[index] for index in range(count)])
        except Exception:  # anything can come out of a user's dataset; without a batch nothing is offered
            return {}
    tables = [table for table in _tensors_of(batch) if table.dim() == 2 and not table.is_floating_point()]
    if not tables or count < 2:
        return {}
    tokens: Any = max(tables, key=lambda table: int(table.max()))
    pad = int(tokens[:, -1].mode().values)
    if int((tokens[:, -2:] == pad).all(1).sum()) == 0 or tokens.unique().numel() <= 3:
        return {}
    left = trim_padding(tokens, pad=pad).shape[1]
    return {"pad": pad, "saves": 1 - left / tokens.shape[1]}


def propose(loop_profile: LoopProfile) -> list[Options]:
    pad = loop_profile.detail("trim_padding", "pad", None)
    return [{"pad": int(pad)}] if loop_profile.padding and pad is not None else []


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The share of padding of what computes on it; attention computes its square."""
    used = 1.0 - min(1.0, loop_profile.padding or 0.0)
    power = 2 if "attention" in loop_profile.facts else 1
    computing = loop_profile.share("transfer", "forward", "backward")
    return _bounds.within(loop_profile, (1 - used**power) * computing)


def apply(loop: Any, options: Options) -> None:
    """To every batch on its way to the script."""
    pad = int(options["pad"])

    def convert(batch: Any) -> Any:
        from laptime.tuning.catalogue._inserted.trim_padding import trim_padding

        return trim_padding(batch, pad=pad)

    loop.batch(convert)


def edit(script: Any, options: Options) -> None:
    """The function, and its call as the first statement of the training loop."""
    _inserted.define(script, "trim_padding")
    script.on_batch(f"{{batch}} = trim_padding({{batch}}, pad={int(options['pad'])})")


OPTIMIZATION = Optimization(
    title="batches cut to their longest sequence",
    numerics="reassociated",
    saves=bound,
    live=True,
    needs=frozenset({"loader"}),
    prior=0.6,
    propose=propose,
    why_not=lambda loop_profile: "" if propose(loop_profile) else "batches have no trailing padding",
    look=look,
    example={"pad": 0, "saves": 0.5},
    apply=apply,
    edit=edit,
)
