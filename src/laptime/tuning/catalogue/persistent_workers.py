"""Loader workers live on from epoch to epoch: the first batch of an epoch does not wait for their start.

Class `random` always: an iterator that lives on does not draw the seed of its workers anew at each epoch, so
whatever the script draws after it, the next shuffle too, is another number.

Source: PyTorch documentation of torch.utils.data.DataLoader, `persistent_workers`; Lightning, "Speed up model
training".
Lies when: epochs are long: then starting workers is a small share. A trial that sees no end of an epoch sees
no effect."""

from laptime.tuning.catalogue import _bounds, _loader
from laptime.tuning.optimization import LoopProfile, Optimization, Options

START = 0.25
"""Seconds that a worker takes to start at most: a fork of a process that has imported torch; spawning one is
slower."""


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The start of all workers and the first batch, spread over the steps of an epoch."""
    steps = max(1.0, (loop_profile.dataset_length or 1) / max(1, loop_profile.batch))
    once = START * max(1, _loader.workers(loop_profile)) + (loop_profile.loader_seconds or 0.0)
    return _bounds.within(loop_profile, once / steps)


OPTIMIZATION = Optimization(
    title="loader workers live on between epochs",
    numerics="random",
    saves=bound,
    needs=frozenset({"loader", "workers", "!persistent"}),
    gives=frozenset({"persistent"}),
    # Without a length there may be no second epoch.
    why_not=lambda loop_profile: "" if loop_profile.dataset_length else "the length of an epoch is not known",
    switch=r"(dataloader_|use_)?persistent_workers",
    apply=lambda loop, options: _loader.change_workers(loop, persistent_workers=True),
    edit=lambda script, options: _loader.set_argument(script, "persistent_workers", "True"),
)
