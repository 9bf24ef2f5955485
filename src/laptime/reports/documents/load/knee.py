"""The knee of a load test in words: up to which load a promise holds, or more load buys more than waiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laptime.analysis.load import knee as analysis
from laptime.kit.text import count
from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.reports.documents.load.levels import Measured


class Knee(NamedTuple):
    """What is said of it. `low`, `high`: requests per second, or users; None: no level bounds it there."""

    low: float | None
    high: float | None
    sentence: str


def section(run: Run, rows: Sequence[Measured]) -> doc.Section:
    """One line; none of a single level, and of a search for the peak, which says more."""
    found = of_levels(run, rows)
    blocks = [doc.Facts(rows=[("knee", found.sentence)])] if found else []
    return doc.Section(id="knee", title="Knee", headed=False, blocks=blocks)


def of_levels(run: Run, rows: Sequence[Measured]) -> Knee | None:
    """The knee of the levels that were asked for."""
    if len(rows) < 2 or any(finding.kind == "load/peak" for finding in run.findings):
        return None
    slo = next((each.facts.slo for each in rows if each.facts.slo), "")
    return _of_promise(rows, slo) if slo else _of_power(rows)


def _of_promise(rows: Sequence[Measured], slo: str) -> Knee:
    found = analysis.kept_until([each.stats for each in rows if each.stats is not None])
    if found is None:
        return Knee(None, None, f"not known: no level surely keeps or breaks {slo}")
    low, high = found
    if low is None:
        sentence = (
            f"below {_load(high, rows)}, the lowest level that surely breaks {slo}; none surely keeps it"
        )
    elif high is None:
        sentence = f"at {_load(low, rows)} or above: there {slo} holds, and no higher level surely breaks it"
    else:
        sentence = (
            f"between {_load(low, rows)} and {_load(high, rows)}: {slo} holds at the one and surely not at"
        )
        sentence += " the other"
    return Knee(low, high, sentence)


def _of_power(rows: Sequence[Measured]) -> Knee:
    """Of levels whose figures are trusted; those above capacity bound it."""
    told = [each.stats for each in rows if each.stats is not None and _counts(each)]
    found = analysis.knee(told)
    left_out = [
        _load(analysis.load_of(each.stats), rows) for each in rows if each.stats and not _counts(each)
    ]
    without = f"; not trusted, and left out: {', '.join(left_out)}" if left_out else ""
    if found is None or (found.low is None and found.high is None):
        return Knee(
            None, None, f"not known: {len(told)} of {len(rows)} levels can be trusted, two are needed"
        )
    low, high = found
    if low is None:
        sentence = f"below {_load(high, rows)}: no level is low enough to say where answers only wait longer"
    elif high is None:
        sentence = f"above {_load(low, rows)}: up to the highest level more load brings more than it costs"
    else:
        sentence = (
            f"between {_load(low, rows)} and {_load(high, rows)}: more load than that mostly waits longer"
        )
    return Knee(low, high, f"{sentence} (answers per second over mean latency is largest there){without}")


def _counts(each: Measured) -> bool:
    assert each.stats is not None
    return each.case.trust == "trusted" or (each.stats.balance.grows and each.case.trust != "invalid")


def _load(load: float | None, rows: Sequence[Measured]) -> str:
    assert load is not None
    return count(int(load), "user") if rows[0].facts.kind == "closed" else f"{load:.4g}/s"
