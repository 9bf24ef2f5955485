"""What the callbacks of all libraries share: arguments, the numbers while the loop runs, and its end."""

from __future__ import annotations

import os
import warnings

from laptime.callbacks._step_clock import LoopProfile, StepClock
from laptime.exports import Export, Point, Record, opened


class SharedStepTimes:
    """Arguments, clock, export and last line of a callback.

    Args:
        profile: profile some steps, too, and print the report when training ends.
        show: print one line when training ends.
        export: also hand the numbers to mlflow, opentelemetry, prometheus, tensorboard or wandb; of several
            ranks only the first does.
        to: file, folder or address that the export writes to; "" is its own.

    Raises:
        Unavailable: the library of the export is not installed.
    """

    def __init__(self, *, profile: bool = False, show: bool = True, export: str = "", to: str = "") -> None:
        super().__init__()
        self.clock = StepClock()
        self._show = show
        self._profile = LoopProfile(profile)
        is_first = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"
        title = f"loop-{os.getpid()}"
        self._export: Export | None = opened(export, to, title=title) if export and is_first else None

    def _begin_loop(self) -> None:
        self._profile.begin()
        self.clock.begin()

    def _send(self) -> dict[str, float]:
        """The numbers that are logged now; the export gets them, too, and what it raises ends no training."""
        numbers = self.clock.numbers()
        if self._export is not None and numbers:
            points = [Point(tag, value, unit) for tag, value, unit in self.clock.metrics()]
            record = Record("loop", {"target": type(self).__module__}, points, self.clock.steps)
            try:
                self._export.write(record)
            except Exception as error:  # whatever another library or its network raises
                self._export = None
                warnings.warn(f"laptime: the export has ended: {error}", stacklevel=3)
        return numbers

    def _end_loop(self) -> None:
        self._profile.end()
        place = self._close_export()
        if self._show:
            print(self.clock.sentence())
            if place:
                print(f"laptime: numbers: {place}")

    def _close_export(self) -> str:
        ended, self._export = self._export, None
        try:
            return ended.close() if ended is not None else ""
        except Exception as error:  # as above
            warnings.warn(f"laptime: the export has ended: {error}", stacklevel=3)
            return ""
