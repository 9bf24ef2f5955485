"""A run while a verb makes it: what happens is folded into it and told."""

from __future__ import annotations

import sys
import time
from typing import Any

from laptime.kit import __version__
from laptime.kit.clock import utc_now
from laptime.records.case import Case
from laptime.records.event import Event, Listener, Progress, RunBuilder, RunFinished, RunStarted
from laptime.records.run import Run
from laptime.store.folder import new_id


class LiveRun:
    """Begins with the verb's work; `start` tells of the run as soon as enough is known of it.

    Args:
        emit: hears every event.

    Attributes:
        id: of the run; where files that belong to it are kept follows from it.
    """

    def __init__(self, verb: str, emit: Listener) -> None:
        self.id = new_id()
        self._verb, self._emit = verb, emit
        self._time, self._began = utc_now(), time.perf_counter()
        self._builder = RunBuilder()

    def start(self, **fields: Any) -> None:
        """Tell of the run; `fields` are those of `Run` that are known now."""
        fields.setdefault("command", ["laptime", *sys.argv[1:]])
        run = Run(id=self.id, verb=self._verb, started=self._time, laptime=__version__, **fields)
        self(RunStarted(run))

    def __call__(self, event: Event) -> None:
        """Take one event, and hand it on."""
        self._builder(event)
        self._emit(event)

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._began

    def say(self, text: str, done: float = 0.0, remaining: float = 0.0) -> None:
        """Tell what is going on: the share of the work that is done, seconds that remain."""
        self(Progress(done=done, remaining=remaining, text=text))

    def case(self, key: str) -> Case:
        """The case as it stands now."""
        return self._builder.case(key)

    def run(self) -> Run:
        """The run as it stands now."""
        return self._builder.run()

    def finish(self, status: str = "complete", seconds: float | None = None) -> Run:
        """Tell the end; the run that it came to.

        Args:
            seconds: since the beginning, where another clock counts than the machine's.
        """
        self(RunFinished(status, self.seconds if seconds is None else seconds))
        return self.run()
