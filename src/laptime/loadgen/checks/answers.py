"""Were the requests answered? Those that failed took forever, as far as a promise about latency goes."""

from __future__ import annotations

from laptime.analysis.load.level import LevelStats
from laptime.kit.units import percent
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.load import level_of

MOST = 0.01


def check(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail without any answer, warn above 1 % of failures, note fewer."""
    facts = level_of(case)
    if facts is None or not facts.failed:
        return None
    total = facts.answered + facts.failed
    kinds = ", ".join(f"{each.kind} {each.count}" for each in facts.errors)
    example = facts.errors[0].example if facts.errors else ""
    said = f": {example}" if example else ""
    if stats is None or not facts.answered:
        return Check("answers", "fail", f"none of {total} requests was answered ({kinds}){said}")
    share = facts.failed / total
    sentence = f"{facts.failed} of {total} requests ({percent(share)}) failed ({kinds}){said}"
    return Check("answers", "warn" if share > MOST else "note", sentence)
