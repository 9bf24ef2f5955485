"""Earlier sessions on this machine, with scripts of the same kind, from the stored runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from laptime.kit.errors import UsageError
from laptime.records.environment import Environment
from laptime.records.run import Run
from laptime.records.tuning import Rung
from laptime.store import files, folder, index

MOST = 20
"""Sessions that are read at most, the newest: each is a file of its own."""

KIND = frozenset(
    {
        *("cpu", "cuda", "mps", "xpu"),
        *("conv", "attention", "embedding", "batchnorm"),
        *("loader", "in_library", "workers"),
        *("autocast", "grad_scaler", "compiled"),
    }
)
"""Facts that two scripts must have in common to be of one kind: device, modules, batches, precision."""


def ladders(
    environment: Environment, facts: Collection[str], goal: str, root: Path | None = None
) -> Iterator[tuple[str, list[Rung]]]:
    """Id and ladder of earlier sessions, the newest first; a run that cannot be read is left out.

    Args:
        environment: this machine, with the devices of the script. facts: of the script as it is.
        goal: of the session. root: the store; None for the usual one.
    """
    base = root or folder.home()
    lines = (line for line in index.listing(base)[0] if line.verb == "tune" and line.status != "running")
    for line in islice(lines, MOST):
        with suppress(UsageError):
            run = files.read(base / line.path)
            if _is_alike(run, environment, facts, goal) and run.tuning is not None:
                yield run.id, run.tuning.ladder


def _is_alike(run: Run, environment: Environment, facts: Collection[str], goal: str) -> bool:
    tuning = run.tuning
    if tuning is None or tuning.goal != goal or tuning.before is None or not tuning.before.facts:
        return False
    return _machine(run.environment) == _machine(environment) and KIND.isdisjoint(
        set(tuning.before.facts) ^ set(facts)
    )


def _machine(environment: Environment) -> tuple[object, ...]:
    """What tells machines apart: name, processors, and the models of the devices."""
    devices = sorted({device.model for device in environment.devices})
    return environment.machine, environment.cpu, environment.usable_cpus, devices
