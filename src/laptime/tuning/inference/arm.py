"""A folder loaded in a process of its own: `Arm` times its calls and asks for its outputs."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from laptime.process.peer import Gone, Peer, Silent
from laptime.tuning.inference import arm_process
from laptime.tuning.inference.arm_process import LONG_CALL
from laptime.tuning.search.evaluator import TrialFailed

FIRST_CALLS = 3


def answer_of(peer: Peer, timeout: float, what: str) -> dict[str, Any]:
    """The next message of a process that runs a folder. Raises TrialFailed: it ends or tells nothing."""
    try:
        answer: dict[str, Any] = json.loads(peer.receive(timeout))
    except Silent:
        raise TrialFailed("hung", f"no answer within {timeout:.0f} s: {what}") from None
    except Gone as gone:
        why = gone.words.line or f"it {gone.words.how}"
        raise TrialFailed("crashed", f"{what}: {why[:300]}") from None
    return answer


class Arm:
    """One folder in one process, which has begun to load when this returns; close it.

    Several load at the same time: start all of them, then `wait` for each before anything is timed.

    Args:
        folder: with tuned.py. calls: file of `RecordedCalls`; their inputs are used.
        isolated: `python -I`, so that nothing of this installation's surroundings helps it.
        arrays: it is called with arrays, and needs no torch; else with tensors.
        python: its interpreter; "": laptime's own.
        cpus: on which it runs; none: on all. device: on which its inputs lie, and which its calls wait for.
        timeout: seconds that any answer may take.

    Attributes:
        peak: bytes of the process, at most so far; on a GPU those that it has of the device.
    """

    def __init__(
        self,
        folder: Path,
        calls: Path,
        *,
        isolated: bool,
        timeout: float,
        arrays: bool = False,
        python: str = "",
        cpus: Sequence[int] = (),
        device: str = "cpu",
    ) -> None:
        self._timeout, self.peak = timeout, 0
        # AOTInductor unpacks its package there, and a process that is killed does not clean up.
        self._scratch = tempfile.TemporaryDirectory(prefix="laptime-arm-", ignore_cleanup_errors=True)
        program = ["-I" if isolated else "-P", "-B", arm_process.__file__, str(folder), str(calls)]
        program += ["arrays" if arrays else "tensors", device]
        place = folder if isolated else None  # the model as it is may be named by a relative path
        self._began, self._loading, self._warming = time.monotonic(), 0.0, 0.0
        self._first: list[float] = []
        self._peer = Peer.start(
            [python or sys.executable, *program],
            cpus=cpus,
            cwd=place,
            env={**os.environ, "TMPDIR": self._scratch.name},
        )

    def wait(self) -> None:
        """Until it is loaded.
        Raises TrialFailed: it does not load.
        """
        if not self._loading:
            self._answer("loading")
            self._loading = time.monotonic() - self._began

    @property
    def loading(self) -> float:
        """Seconds that loading takes.
        Raises TrialFailed: it does not load.
        """
        self.wait()
        return self._loading

    @property
    def call(self) -> float:
        """Seconds of a call, about: the median of its first ones.
        Raises TrialFailed: it does not load, or a call fails.
        """
        return median(self._first_calls())

    @property
    def ready(self) -> float:
        """Seconds that loading and the first calls take; the first one of some runtimes compiles.
        Raises TrialFailed: it does not load, or a call fails.
        """
        self._first_calls()
        return self._loading + self._warming

    def _first_calls(self) -> list[float]:
        if not self._first:
            self.wait()
            began = time.monotonic()
            self._first = self.seconds(1)
            if self._first[0] < LONG_CALL:
                self._first += self.seconds(FIRST_CALLS - 1)
            self._warming = time.monotonic() - began
        return self._first

    def seconds(self, calls: int) -> list[float]:
        """Seconds of each of so many calls.
        Raises TrialFailed: one fails.
        """
        self.wait()
        self._tell({"calls": calls})
        return self.finish()

    def begin(self, seconds: float) -> None:
        """Let it call for so many seconds; `finish` has to follow."""
        self.wait()
        self._tell({"seconds": seconds})

    def finish(self) -> list[float]:
        """Seconds of each call since `begin`.
        Raises TrialFailed: one fails.
        """
        answer = self._answer("a call")
        self.peak = int(answer["peak"])
        made: list[float] = answer["seconds"]
        return made

    def outputs(self, path: Path) -> dict[str, Any]:
        """Write what it makes of all recorded inputs, see `arm_process.outputs`.
        Raises TrialFailed: it does not load, its first calls fail, or its process ends.
        """
        self._first_calls()
        return self._ask({"outputs": str(path)}, "its outputs")

    def _ask(self, command: dict[str, Any], what: str) -> dict[str, Any]:
        self.wait()
        self._tell(command)
        return self._answer(what)

    def _tell(self, command: dict[str, Any]) -> None:
        with suppress(Gone):  # `_answer` says why
            self._peer.send(json.dumps(command).encode(), self._timeout)

    def _answer(self, what: str) -> dict[str, Any]:
        return answer_of(self._peer, self._timeout, what)

    def close(self) -> None:
        """End the process."""
        self._peer.close()
        self._scratch.cleanup()

    def __enter__(self) -> Arm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
