"""The machine, the settings and every check of a benchmark."""

import math
from typing import Any

import msgspec

from laptime.kit.units import show
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports.commands import whole
from laptime.reports.document import Cell, Facts, Folded, Section, Table
from laptime.reports.fields import Field, tabulate


def section(run: Run) -> Section:
    """Folded away on the page; the checks are open if the verdict is not `trusted`."""
    machine = f"Machine, libraries and knobs (fingerprint {run.environment.fingerprint})"
    environment = run.environment
    facts: dict[str, Any] = msgspec.to_builtins(environment)
    for name in ("host", "affinity", "memory", "memory_limit"):
        facts.pop(name, None)
    limit = environment.memory_limit
    rows = [("command", words.command(run)), ("fingerprint", environment.fingerprint)]
    rows += [
        ("memory", show(environment.memory, "B")),
        ("memory limit", show(limit, "B") if limit is not None else ""),
    ]
    devices = facts.pop("devices", [])
    rows += [(name.replace("_", " "), text) for name, text in flat(facts)]
    for device in devices:
        rows += [(f"{device['name']} / {name}", text) for name, text in flat(device) if name != "name"]
    blocks = [
        Folded(machine, [Facts(rows)]),
        Folded("Effective settings, and where each came from", [_settings(run)]),
        Folded("Checks", [_checks(run)], open=run.trust != "trusted"),
    ]
    return Section("environment", "Environment", blocks, detail="page")


def brief(run: Run) -> list[tuple[str, str]]:
    """The facts that a pull request needs to be read by somebody else."""
    environment = run.environment
    return [
        ("machine", f"{environment.cpu}, {environment.os}, Python {environment.python}"),
        ("libraries", ", ".join(f"{name} {version}" for name, version in environment.libraries.items())),
        ("settings", ", ".join(f"{name} {value}" for name, value in environment.knobs.items())),
        ("command", words.command(run)),
        ("fingerprint", f"{environment.fingerprint}, run {run.id}, laptime {run.laptime}"),
    ]


def _settings(run: Run) -> Table:
    fields = [
        Field("setting", lambda each: each[0]),
        Field("value", lambda each: str(each[1].value)),
        Field("from", lambda each: each[1].origin),
    ]
    return tabulate("setting", fields, run.plan.items(), row=lambda each: {"key": each[0]})


def _checks(run: Run) -> Table:
    every = [("whole run", check) for check in run.checks]
    every += [(words.label(case, run), check) for case in run.cases for check in case.checks]
    fields = [
        Field("outcome", lambda each: Cell(each[1].outcome, tone=each[1].outcome)),
        Field("check", lambda each: each[1].name),
        Field("case", lambda each: each[0]),
        Field("what it says", lambda each: each[1].sentence),
    ]
    notes = lambda each: {"notes": [f"next: {whole(each[1].next)}"] if each[1].next else []}  # noqa: E731
    return tabulate("check-row", fields, every, row=notes, notes_title="next")


def flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Nested facts as (name, text) rows; large numbers get a readable size."""
    if isinstance(value, dict):
        named = ((f"{name} / {key}" if name else str(key), item) for key, item in value.items())
        return [row for path, item in named for row in flat(item, path)]
    if isinstance(value, list | tuple):
        return [(name, ", ".join(str(item) for item in value))] if value else []
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and abs(value) >= 1e5:
        return [(name, show(float(value), "1"))]
    return [(name, "yes" if value is True else "no" if value is False else str(value))]
