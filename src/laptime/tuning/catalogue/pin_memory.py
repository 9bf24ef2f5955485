"""Batches in page-locked memory, copied to the device while the host goes on.

In a trial the batch is moved to the device as it leaves the loader, all tensors of it, so that the script's
own `.to(device)` finds nothing to do; the edit adds `non_blocking=True` to these calls instead. Both start
the same copies at nearly the same moment.

Source: PyTorch tutorial "A guide on good usage of non_blocking and pin_memory()"; PyTorch Performance Tuning
Guide.
Lies when: the script needs a tensor of the batch on the CPU (lengths for pack_padded_sequence): in a trial it
then fails and is left out. Pinning takes a thread and memory that cannot be swapped."""

from typing import Any

from laptime.tuning.catalogue import _loader
from laptime.tuning.optimization import CannotEdit, Optimization, Options


def apply(loop: Any, options: Options) -> None:
    """pin_memory of every DataLoader; pinned tensors of a training batch start on their way at once."""
    loop.loader(lambda call: call.arguments.update(pin_memory=True))

    def start(tensor: Any) -> Any:
        if tensor.device.type != "cpu" or loop.device != "cuda" or not tensor.is_pinned():
            return tensor
        return tensor.to("cuda", non_blocking=True)

    def convert(batch: Any) -> Any:
        from laptime.tuning.trial.batches import map_tensors

        return map_tensors(batch, start)

    loop.batch(convert)


def edit(script: Any, options: Options) -> None:
    """One argument of the training loader, and `non_blocking=True` where the batch is moved."""
    _loader.set_argument(script, "pin_memory", "True")
    if not script.has_site("loader"):
        return
    try:
        script.non_blocking()
    except CannotEdit:
        # A library moves the batch (Lightning, accelerate): pinned it is copied faster all the same.
        if not script.has_site("lightning_trainer"):
            raise


OPTIMIZATION = Optimization(
    title="page-locked batches, copied without waiting",
    numerics="exact",
    # The copies to the device, and the part of the wait that the loader's thread could take over.
    saves={"transfer": 1.0, "data": 0.25},
    needs=frozenset({"loader", "cuda", "!pinned"}),
    gives=frozenset({"pinned"}),
    prior=0.6,
    switch=r"(dataloader_|use_)?pin_mem(ory)?",
    apply=apply,
    edit=edit,
)
