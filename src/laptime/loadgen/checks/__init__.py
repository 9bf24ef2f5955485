"""Is this level of load true? One file a check.

Each file has `check(case, stats) -> Check | None`, a pure function: `stats` are the level's numbers, None
where no request was answered. None means: nothing to say about this level.
"""

from __future__ import annotations

from laptime.analysis.load.level import LevelStats
from laptime.kit.registry import load, names
from laptime.records.case import Case
from laptime.records.check import Check

ROOM = "load_checks"


def run_all(case: Case, stats: LevelStats | None) -> list[Check]:
    """The answers of all checks that have something to say, worst first."""
    checks = [load(ROOM, name).check(case, stats) for name in names(ROOM)]
    order = {"fail": 0, "warn": 1, "note": 2, "ok": 3}
    return sorted((check for check in checks if check is not None), key=lambda c: order[c.outcome])
