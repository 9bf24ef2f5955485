"""Writes docs/metrics.md from the definitions of all metrics; `--check` only tells whether it is fresh."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import _pages

import laptime
from laptime.records.series import Metric

HEADER = """# Metrics

Every number that laptime stores, with its SI unit, what it means and when it misleads. Written by
`make docs` from the definitions in the code; shown values are converted to readable units. Statistics
(median, p95, ...) are computed from the stored samples.
"""
WORDS = {"lower": "lower is better", "higher": "higher is better", "none": ""}


def found_in(module_name: str) -> list[Metric]:
    """Metrics that a module defines at its top level, alone or in tuples and dicts."""
    found: list[Metric] = []
    for value in vars(importlib.import_module(module_name)).values():
        values = (
            value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        )
        found += [one for one in values if isinstance(one, Metric)]
    return found


def collect() -> dict[str, Metric]:
    """Every metric by its tag."""
    found: dict[str, Metric] = {}
    for module in sorted(pkgutil.walk_packages(laptime.__path__, "laptime."), key=lambda m: m.name):
        if module.name == "laptime.__main__" or module.name.startswith("laptime.testing"):
            continue
        for metric in found_in(module.name):
            found.setdefault(metric.tag, metric)
    return dict(sorted(found.items()))


def page() -> str:
    """The whole page."""
    lines = [HEADER]
    for metric in collect().values():
        lines.append(f"## `{metric.tag}`\n")
        facts = [metric.title, f"unit {metric.unit}", WORDS[metric.better]]
        lines.append("; ".join(fact for fact in facts if fact) + ".")
        lines.append(f"{metric.meaning}\n" if metric.meaning else "")
        if metric.lies_when:
            lines.append(f"**Lies when:** {metric.lies_when}\n")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(_pages.run("metrics", page, of="metrics"))
