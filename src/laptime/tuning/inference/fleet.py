"""A folder in several processes at once, each on CPUs of its own (decision 0027): what a setup does.

A `Fleet` is a side of a race as an `Arm` is: it has `wait`, `call`, `ready`, `seconds` and `peak`.
"""

from __future__ import annotations

import time
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
    """The processes of a setup, which have begun to load when this returns; close it.

    Args:
        start: of one process. folder, calls: see `Arm`; the calls have the setup's batch size.

    Raises:
        TrialFailed: there are not enough CPUs.
    """

    def __init__(self, start: StartArm, folder: Path, calls: Path, setup: Setup) -> None:
        self.setup = setup
        places = cpus_of(setup)
        if not places:
            raise TrialFailed("refused", f"no room for {setup.instances} x {setup.threads} threads")
        with ExitStack() as stack:
            self._arms = [stack.enter_context(start(folder, calls, cpus)) for cpus in places]
            self._stack = stack.pop_all()
        self._warming: float | None = None

    def wait(self) -> None:
        """Until all are loaded and have made calls that do not count: the first of some runtimes compiles.

        Raises:
            TrialFailed: one of them does not run.
        """
        if self._warming is None:
            for arm in self._arms:
                arm.wait()
            began = time.monotonic()
            self._called(0.0)
            self._warming = time.monotonic() - began

    @property
    def call(self) -> float:
        """Seconds of a call of one instance alone, about.

        Raises:
            TrialFailed: it does not load, or a call fails.
        """
        self.wait()
        return self._arms[0].call

    @property
    def ready(self) -> float:
        """Seconds until the slowest was loaded, and of the first calls.

        Raises:
            TrialFailed: one of them does not run.
        """
        self.wait()
        return max(arm.loading for arm in self._arms) + (self._warming or 0.0)

    @property
    def peak(self) -> int:
        """Bytes of all processes, at most so far."""
        return sum(arm.peak for arm in self._arms)

    def seconds(self, calls: int) -> list[float]:
        """Seconds of each call of all instances, which call at the same time for as long as so many take.

        Raises:
            TrialFailed: one of them does not run.
        """
        return [each for durations in self._called(calls * self.call) for each in durations]

    def _called(self, seconds: float) -> list[list[float]]:
        """Seconds of each call, by instance."""
        for arm in self._arms:
            arm.begin(seconds)
        return [arm.finish() for arm in self._arms]

    def visit(self, seconds: float) -> Visit:
        """All instances call for so many seconds, at the same time.

        The rate is the sum over instances, each over its own time: all begin and end within a call.

        Raises:
            TrialFailed: one of them does not run.
        """
        self.wait()
        made = self._called(seconds)
        return Visit(
            seconds=[each for durations in made for each in durations],
            rate=sum(self.setup.batch * len(durations) / sum(durations) for durations in made),
            peak=self.peak,
        )

    def close(self) -> None:
        """End all of them."""
        self._stack.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
