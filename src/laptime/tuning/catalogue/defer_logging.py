"""Values for logs read every 50th step: `.item()` and print of a tensor make the host wait for the device.

Only suggested, and only if the source shows that a value goes nowhere but into a print or a logger: a sum
that runs on, a NaN guard or early stopping would be another one with every 50th value.

Source: PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization"; Lightning, "Speed up
model training", things to avoid.
Lies when: the loop is bound by the device, so that the host loses nothing by waiting. On a CPU only the cost
of the logging itself is saved."""

from typing import Any

from laptime.tuning.catalogue import _bounds
from laptime.tuning.optimization import LoopProfile, Optimization, Options

EVERY = 50


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Propose it with numbers of the synchronising calls in the script's own lines that every step makes."""
    taken: set[tuple[str, int]] = set()
    sites: list[int] = []
    for number, site in enumerate(loop_profile.syncs):
        lines = {(site.file, line) for line in range(site.line, max(site.line, site.end_line) + 1)}
        if site.count >= 0.9 and taken.isdisjoint(lines):
            taken |= lines
            sites.append(number)
    return [{"every": EVERY, "sites": sites}] if sites else []


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """A step's time besides its known parts, logging among it; with an accelerator also the time in which
    the host could have run ahead."""
    ahead = min(loop_profile.enqueue or 0.0, loop_profile.share("forward", "backward", "optimizer"))
    spared = 1 - 1 / int(options["every"])
    return _bounds.within(loop_profile, spared * (loop_profile.share("other") + ahead))


def apply(loop: Any, options: Options) -> None:
    loop.refuse("values that the script reads can only be left out in its source: see the suggested diff")


def edit(script: Any, options: Options) -> None:
    """A flag at the top of the loop, and the statements that only show values under it.

    A step that still waits in one place gains nothing elsewhere: if one value goes into a sum, a condition
    or a return, there is nothing to suggest."""
    for number in options["sites"]:
        script.log_under("sync", "is_logged", int(number))
    script.at_start("batch_numbers = itertools.count()", "import itertools")
    script.on_batch(f"is_logged = next(batch_numbers) % {int(options['every'])} == 0")


OPTIMIZATION = Optimization(
    title="values for logs read every 50th step",
    numerics="exact",
    saves=bound,
    needs=frozenset({"syncs_every_step"}),
    gives=frozenset(),
    suggests=True,
    propose=propose,
    apply=apply,
    edit=edit,
)
