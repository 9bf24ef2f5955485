"""Findings as advice: the gain, the change and its place, the commands, and the table rows behind it."""

from __future__ import annotations

from typing import Any

from laptime.kit.units import show
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.reports import _words
from laptime.reports.document import Advice
from laptime.reports.documents.profile import words
from laptime.reports.documents.profile.tables import frames


def advice(finding: Finding, run: Run, profile: Profile) -> Advice:
    """One finding of a run; the gain is an upper bound per step."""
    gain, step_ns = finding.gain or 0.0, profile.overview.step_ns
    return Advice(
        severity=finding.severity,
        sentence=finding.sentence,
        gain=show(gain, "s") if gain else "",
        share=f"{words.percent(min(1.0, gain * 1e9 / step_ns))} of a step" if gain and step_ns else "",
        change=finding.change,
        place=words.place(finding.stack),
        commands=words.commands(finding, run),
        stack=frames(finding.stack) if len(finding.stack) > 1 else [],
        evidence=[
            (name.replace("_", " "), _evidence(name, value)) for name, value in finding.evidence.items()
        ],
        links=[(_link(row, profile), _row_name(row)) for row in finding.rows],
    )


def _link(row: str, profile: Profile) -> str:
    """Where a row is on the page; the memory of a device is a group with a number."""
    devices = [f"memory/{memory.device}" for memory in profile.memory]
    return f"memory-of-{devices.index(row)}" if row in devices else row


def _row_name(row: str) -> str:
    table, _, key = row.partition("/")
    if table.startswith("kernels"):
        return words.kernel(key, 44)
    return f"rank {key}" if table == "ranks" else words.operator(key, 44)


def _evidence(name: str, value: Any) -> str:
    """A piece of evidence with the unit that its name ends in."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_evidence(str(key), item)}" for key, item in list(value.items())[:8])
    if isinstance(value, list | tuple):
        return ", ".join(_evidence(name, item) for item in value[:8])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _words.printable(value)
    if name.endswith("_ns") or "_ns_" in name:
        return words.time(value)
    if "share" in name and 0 <= value <= 1:
        return words.percent(value)
    if "bytes" in name:
        return show(float(value), "B")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"
