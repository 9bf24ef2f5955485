"""A folder in several processes at once, each on CPUs of its own (decision 0027): what a setup does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from laptime.launch.instances import placed
from laptime.tuning.inference.arm import Arm
from laptime.tuning.inference.setups import Setup, Visit
from laptime.tuning.search.evaluator import TrialFailed
from laptime.verbs.bench.instances import usable

StartArm = Callable[[Path, Path, Sequence[int]], Arm]
"""Starts a folder that is called with recorded inputs, on some CPUs; on all where none are named."""


def cpus_of(setup: Setup) -> list[list[int]]:
    """CPUs of each instance; [[]], which pins nothing, where the runtime chooses its threads."""
    if not setup.threads:
        return [[] for _ in range(setup.instances)]
    return placed(setup.instances, setup.threads, usable())


class Fleet:
    """The processes of a setup; close it.

    Args:
        start: of one process. folder, calls: see `Arm`; the calls have the setup's batch size.

    Raises:
        TrialFailed: one of them does not run, or there are not enough CPUs.
    """

    def __init__(self, start: StartArm, folder: Path, calls: Path, setup: Setup) -> None:
        self.setup = setup
        places = cpus_of(setup)
        if not places:
            raise TrialFailed("refused", f"no room for {setup.instances} x {setup.threads} threads")
        with ExitStack() as stack:
            self._arms = [stack.enter_context(start(folder, calls, cpus)) for cpus in places]
            for arm in self._arms:
                arm.begin(0.0)  # calls that do not count: the first one of some runtimes compiles
            for arm in self._arms:
                arm.finish()
            self._stack = stack.pop_all()

    @property
    def call(self) -> float:
        """Seconds of a call of one instance alone, about."""
        return self._arms[0].call

    def visit(self, seconds: float) -> Visit:
        """All instances call for so many seconds, at the same time.

        The rate is the sum over instances, each over its own time: all begin and end within a call.

        Raises:
            TrialFailed: a call fails.
        """
        for arm in self._arms:
            arm.begin(seconds)
        made = [arm.finish() for arm in self._arms]
        return Visit(
            seconds=[each for durations in made for each in durations],
            rate=sum(self.setup.batch * len(durations) / sum(durations) for durations in made),
            peak=sum(arm.peak for arm in self._arms),
        )

    def close(self) -> None:
        """End all of them."""
        self._stack.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
