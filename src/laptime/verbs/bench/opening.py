"""Opening workers: at the same time where their load times do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from laptime.verbs.bench.case_worker import CaseWorker


def load_first(workers: Sequence[CaseWorker], *, one_by_one: bool) -> None:
    """Load the workers of one variant for the first time, which gives import and load times.

    Variants load one after another, so that they do not disturb each other. The workers of one variant
    load together, unless one by one, and a note on their times says so.
    """
    for group in [[worker] for worker in workers] if one_by_one else [workers]:
        open_together(group)
        note = f"beside {len(group) - 1} other processes that loaded, too" if len(group) > 1 else ""
        for worker in group:
            worker.prepare(note.replace("1 other processes", "1 other process"))


def open_together(workers: Sequence[CaseWorker]) -> None:
    """Start all of them and wait until each has loaded its variant, or failed to."""
    for worker in workers:
        worker.start()
    with ThreadPoolExecutor(max(1, len(workers))) as pool:
        try:
            list(pool.map(lambda worker: worker.open(), workers))
        except KeyboardInterrupt:
            for worker in workers:  # else the pool waits until all of them have loaded
                worker.abandon()
            raise
