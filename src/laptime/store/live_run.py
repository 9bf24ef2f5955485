"""A run while a verb makes it: what happens is folded into it and told, and first of all kept on disk."""

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from msgspec import structs

from laptime.kit import __version__, redaction
from laptime.kit.clock import utc_now
from laptime.kit.errors import UsageError
from laptime.records.event import Event, Listener, Progress, RunBuilder, RunFinished, RunStarted
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.store.folder import new_id
from laptime.store.journal import Journal


class LiveRun:
    """Begins with the verb's work; `start` tells of the run as soon as enough is known of it. `emit` hears
    every event. Where files that belong to the run are kept follows from its `id`."""

    def __init__(self, verb: str, emit: Listener) -> None:
        self.id = new_id()
        self._verb, self._emit = verb, emit
        self._time, self._began = utc_now(), time.perf_counter()
        self._builder = RunBuilder()
        self.case, self.run = self._builder.case, self._builder.run  # as they stand now

    def start(self, **fields: Any) -> None:
        """Tell of the run; `fields` are those of `Run` that are known now."""
        fields.setdefault("command", redaction.line(["laptime", *sys.argv[1:]]))
        run = Run(id=self.id, verb=self._verb, started=self._time, laptime=__version__, **fields)
        self(RunStarted(run))

    def __call__(self, event: Event) -> None:
        self._builder(event)
        self._emit(event)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def say(self, text: str, done: float = 0.0, remaining: float = 0.0) -> None:
        """Tell what is going on: the share of the work that is done, seconds that remain."""
        self(Progress(done=done, remaining=remaining, text=text))

    def finish(self, status: str = "complete", seconds: float | None = None) -> Run:
        """Tell the end; the run that it came to. seconds: since the beginning, where another clock counts
        than the machine's."""
        self(RunFinished(status, self.seconds if seconds is None else seconds))
        return self.run()


Recorded = tuple[Run, UsageError | None]  # a run, and why it is not kept where it belongs; None when it is


def record_run(work: Callable[[Listener], Run], *listeners: Listener, save: bool = True) -> Recorded:
    """The run that some work, a verb, comes to. Listeners hear every event once it is on disk. save: keep the
    run; one that is not kept has the setting `save` false."""
    with Journal() if save else nullcontext() as journal:

        def emit(event: Event) -> None:
            if journal is not None:
                journal(event)  # first: what is shown is on disk
            for listener in listeners:
                listener(event)

        run = work(emit)
    complaint = journal.complaint if journal is not None else None
    if journal is not None and journal.path is not None:
        run = structs.replace(run, id=journal.run_id)
    if journal is None or journal.path is None or complaint is not None:
        unsaved = Setting(value=False, origin="flag" if journal is None else "machine")
        run = structs.replace(run, plan={**run.plan, "save": unsaved})
    return run, complaint
