"""What a verb does, kept on disk while it happens: the one way in which runs are saved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from msgspec import structs

from laptime.kit.errors import UsageError
from laptime.records.event import Event, Listener
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.store.journal import Journal

Recorded = tuple[Run, UsageError | None]
"""A run, and why it is not kept where it belongs; None when it is."""


def recorded(work: Callable[[Listener], Run], *listeners: Listener, save: bool = True) -> Recorded:
    """The run that some work comes to.

    Args:
        work: a verb; tells its events to the listener that it gets.
        listeners: hear every event once it is on disk.
        save: keep the run. One that is not kept has the setting `save` false.
    """
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
