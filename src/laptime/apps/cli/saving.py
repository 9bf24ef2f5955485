"""Storing a run that is complete when its command ends: `trace`, `profile` and `tune`."""

from __future__ import annotations

from msgspec import structs

from laptime.kit.errors import LaptimeError
from laptime.records.plan import Setting
from laptime.records.run import Run


def saved(run: Run, *, save: bool) -> tuple[Run, LaptimeError | None]:
    """The run as it is stored, and why it could not be stored; without `save` it is marked as not saved."""
    if save:
        from laptime.verbs.trace import kept  # not at the top: `laptime --help` imports no verb

        try:
            return kept(run), None
        except LaptimeError as complaint:
            return _unsaved(run), complaint
    return _unsaved(run), None


def _unsaved(run: Run) -> Run:
    return structs.replace(run, plan={**run.plan, "save": Setting(value=False, origin="flag")})
