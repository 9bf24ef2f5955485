"""One builder a kind of run: from what was stored to what a report says of it.

A new verb's runs are shown by a file of its name here, with `document(run) -> Document`; without one they are
shown as cases, as `bench` shows them."""

from importlib import import_module
from pkgutil import iter_modules

from laptime.records.run import Run
from laptime.reports.document import Document
from laptime.reports.documents import verdicts

_BY_CONTENT = frozenset({"profile", "tuning"})
"""Chosen by what the run holds: an interrupted one may hold neither, and is shown by its cases."""
_BY_VERB = frozenset(module.name for module in iter_modules(__path__)) - _BY_CONTENT


def document(run: Run) -> Document:
    """Build the document of a run; its builder is imported now."""
    verb = run.verb if run.verb in _BY_VERB else "bench"
    builder = import_module(f"{__name__}.{'tuning' if run.tuning else 'profile' if run.profile else verb}")
    made: Document = builder.document(run)
    return verdicts.answer(made, run) if verdicts.is_asked(run) else made
