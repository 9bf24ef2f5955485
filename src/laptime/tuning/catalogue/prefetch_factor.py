"""Each worker holds more batches ready: the step does not wait for one slow batch.

Source: PyTorch documentation of torch.utils.data.DataLoader, `prefetch_factor` (2 by default).
Lies when: workers are slower than the step on average: then any store of batches runs out."""

from laptime.tuning.catalogue import _loader
from laptime.tuning.optimization import LoopProfile, Optimization, Options

VALUES = (4, 8, 16)


def propose(loop_profile: LoopProfile) -> list[Options]:
    """4, 8 and 16, as far as memory and /dev/shm hold them, above what the script has."""
    present, number = _loader.prefetch(loop_profile), max(1, _loader.workers(loop_profile))
    larger = [value for value in VALUES if value > present]
    return [{"value": value} for value in larger if _loader.fits(loop_profile, number, value)]


OPTIMIZATION = Optimization(
    title="more batches held ready by each worker",
    numerics="exact",
    saves={"data": 1.0},
    needs=frozenset({"loader", "workers"}),
    gives=frozenset(),
    prior=0.2,
    propose=propose,
    why_not=lambda loop_profile: (
        ""
        if propose(loop_profile)
        else "it is high already, or memory and /dev/shm have no room for more batches"
    ),
    switch=r"(dataloader_)?prefetch_factor",
    apply=lambda loop, options: _loader.change_workers(loop, prefetch_factor=int(options["value"])),
    edit=lambda script, options: _loader.set_argument(script, "prefetch_factor", str(int(options["value"]))),
)
