"""One builder a kind of run: from what was stored to what a report says of it."""

from __future__ import annotations

from laptime.records.run import Run
from laptime.reports.document import Document


def document(run: Run) -> Document:
    """What a report says about a run; builders are imported when a run needs them."""
    if run.tuning is not None:
        from laptime.reports.documents import tuning

        return tuning.document(run)
    if run.profile is not None:
        from laptime.reports.documents import profile

        return profile.document(run)
    from laptime.reports.documents import bench

    return bench.document(run)
