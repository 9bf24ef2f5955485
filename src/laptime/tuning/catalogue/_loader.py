"""Code that changes of the loader share: the calls that they touch, the wait that they save, the edit."""

from typing import Any

from laptime.tuning.loop_profile import LoopProfile

PREFETCH = 2  # batches that each worker holds ready by torch's default
MEMORY = 0.25  # share of the free memory that a change of the loader may take
SHM = 0.5  # share of free /dev/shm that batches in flight may take; the rest is for the script's own


def workers(loop_profile: LoopProfile) -> int:
    """Workers of the training loader as it is."""
    return int(loop_profile.loader.get("num_workers") or 0)


def batch_size(loop_profile: LoopProfile) -> int:
    """Samples of a batch that the training loader makes itself; 0 if it does not."""
    size = loop_profile.loader.get("batch_size")
    return size if isinstance(size, int) else 0


def prefetch(loop_profile: LoopProfile) -> int:
    """Batches that each worker holds ready."""
    return int(loop_profile.loader.get("prefetch_factor") or PREFETCH)


def fits(loop_profile: LoopProfile, number: int, batches: int) -> bool:
    """Whether so many batches of each of so many workers leave memory and /dev/shm to others."""
    size = number * batches * loop_profile.batch_bytes
    if loop_profile.memory is not None and size > MEMORY * loop_profile.memory:
        return False
    return loop_profile.shm is None or size <= SHM * loop_profile.shm


def change_workers(loop: Any, **arguments: Any) -> None:
    """Arguments of the loaders that have workers; torch raises if these come without any."""

    def rewrite(call: Any) -> None:
        if int(call.arguments.get("num_workers") or 0) > 0:
            call.arguments.update(arguments)

    loop.loader(rewrite)


def enlarge_batch(loop: Any, size: int, times: float) -> None:
    """Give the loaders that make batches of `size / times` samples themselves this size."""

    def rewrite(call: Any) -> None:
        is_own = call.arguments.get("batch_sampler") is None
        if is_own and call.arguments.get("batch_size", 1) * times == size:
            call.arguments["batch_size"] = size

    loop.loader(rewrite)


def set_argument(script: Any, argument: str, value: str) -> None:
    """An argument of the training loader, or of the TrainingArguments that make it."""
    if script.has_site("hf_arguments") and not script.has_site("loader"):
        script.set_arguments("hf_arguments", **{f"dataloader_{argument}": value})
    else:
        script.set_arguments("loader", **{argument: value})
