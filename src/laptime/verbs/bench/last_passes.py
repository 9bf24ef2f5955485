"""What follows the timed calls while the workers still live: passes, and outputs held against one another."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from laptime.analysis.architecture import work_of
from laptime.measure import passes
from laptime.records.case import Case
from laptime.verbs.bench.case_worker import CaseWorker

CaseOf = Callable[[CaseWorker, int], Case]
Active = Sequence[tuple[CaseWorker, int]]


def completed_cases(active: Active, case_of: CaseOf, say: Callable[[str, float], None]) -> Iterator[Case]:
    """The cases as each pass completes them.

    Args:
        active: the cases that have not failed.
        case_of: the case as it is now.
        say: reports what is going on, and the share of all passes that lies behind it.
    """
    for number, kind in enumerate(passes.KINDS):
        say(f"measuring {kind}" if kind != "count" else "counting FLOPs", number / (len(passes.KINDS) + 1))
        for worker, batch in active:
            yield worker.do(kind, batch, case_of(worker, batch))
    groups: dict[tuple[str, int, tuple[object, ...]], list[CaseWorker]] = {}
    for worker, batch in active:
        if not worker.variant.train:  # a training step changes the weights
            work = work_of(case_of(worker, batch))
            groups.setdefault((worker.variant.target, batch, work), []).append(worker)
    for (target, batch, _), workers in groups.items():
        if len(workers) > 1:
            say(f"comparing outputs of {target}", len(passes.KINDS) / (len(passes.KINDS) + 1))
            yield from _compared(workers, batch, case_of)


def _compared(workers: Sequence[CaseWorker], batch: int, case_of: CaseOf) -> Iterator[Case]:
    """The cases of one model and batch size; the outputs of each held against the first one's."""
    reference, *others = workers
    with tempfile.TemporaryDirectory(prefix="laptime-outputs-") as folder:
        path = Path(folder) / "calls.npz"
        first = case_of(reference, batch)
        yield reference.do(passes.RECORD, batch, first, path=str(path))
        if not path.is_file():
            return
        for worker in others:
            case = case_of(worker, batch)
            dtype = str(first.axes.get("dtype", "float32"))
            yield worker.do(
                passes.COMPARE, batch, case, path=str(path), against=_name(first, case), dtype=dtype
            )


def _name(reference: Case, case: Case) -> str:
    """The reference in words: its framework where the case has another one, else the axes that differ."""
    frameworks = [str(each.axes.get("backend", "torch")) for each in (reference, case)]
    if frameworks[0] != frameworks[1]:
        return frameworks[0]
    differing = [f"{name}={value}" for name, value in reference.axes.items() if case.axes.get(name) != value]
    missing = [name for name in case.axes if name not in reference.axes]
    return ", ".join([*differing, *(f"no {name}" for name in missing)]) or "the first case"
