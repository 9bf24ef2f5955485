"""List stored runs, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from laptime.analysis.summary import Stat, headline
from laptime.apps.cli.frame import Voice, one_line
from laptime.apps.cli.options import voice_options
from laptime.apps.cli.output import result, table
from laptime.kit.errors import UsageError
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.reports._profile.words import bound
from laptime.store import files, folder


class Entry(NamedTuple):
    """A stored file, and the run in it or why there is none."""

    path: Path
    run: Run | None
    fault: str = ""


@click.command("list")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many."
)
@click.option("--all", "everything", is_flag=True, help="All there are.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@voice_options
@click.pass_context
def command(context: click.Context, /, limit: int, everything: bool, as_json: bool) -> None:
    """List stored runs, newest first.

    Interrupted runs hold what was measured until then. Damaged files are listed, not hidden.
    """
    voice = context.find_object(Voice) or Voice()
    paths = files.stored()
    entries = list(_entries(paths if everything else paths[:limit]))
    if as_json:
        document = {"schema": "laptime.list/1", "runs": [_record(entry) for entry in entries]}
        result(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    if not entries:
        voice.say(f"no runs are stored under {folder.home()}   next: laptime bench torchvision:resnet18")
        return
    result(table(("run", "when", "verdict", "median", "of", "name"), [_row(e) for e in entries],
                 right=("median",)))  # fmt: skip
    if len(paths) > len(entries):
        voice.say(f"{count(len(paths) - len(entries), 'older run')} not shown   next: laptime list --all")


def _entries(paths: list[Path]) -> Iterator[Entry]:
    for path in paths:
        try:
            yield Entry(path, files.read(path))
        except UsageError as error:
            if path.exists():  # else another process has just finished or removed it
                yield Entry(path, None, error.why)


def _row(entry: Entry) -> tuple[str, ...]:
    run_id = folder.id_of(entry.path)
    if entry.run is None:
        return run_id, "", "damaged", "-", one_line(entry.fault), ""
    case, stat = _headline(entry.run)
    others = f" and {count(len(entry.run.cases) - 1, 'more case')}" if len(entry.run.cases) > 1 else ""
    what = case.key if case else ", ".join(subject.target for subject in entry.run.subjects)
    shown = show(stat.value, stat.unit, stat.ci95) if stat else "-"
    if entry.run.profile is not None:
        shown = f"{show(entry.run.profile.overview.step_median_ns / 1e9, 's')} a step"
    return (
        run_id,
        _when(entry.run),
        _verdict(entry.run),
        shown,
        one_line(what + others),
        one_line(entry.run.name),
    )


def _record(entry: Entry) -> dict[str, Any]:
    run = entry.run
    if run is None:
        return {
            "id": folder.id_of(entry.path),
            "path": str(entry.path),
            "status": "damaged",
            "reason": entry.fault,
        }
    case, stat = _headline(run)
    number: dict[str, Any] | None = None
    if case and stat:
        fields = ("tag", "value", "unit", "ci95", "n", "regime")
        number = {"case": case.key} | {name: getattr(stat, name) for name in fields}
    limit = None
    if run.profile is not None:
        seen = run.profile.overview
        number = {"case": None, "tag": "step", "value": seen.step_median_ns / 1e9, "unit": "s", "ci95": None}
        number |= {"n": seen.steps, "regime": None}
        limit = run.profile.verdict.bound if run.profile.verdict else None
    return {
        "id": run.id,
        "path": str(entry.path),
        "status": run.status,
        "verb": run.verb,
        "name": run.name,
        "started": run.started,
        "verdict": run.trust,
        "bound": limit,
        "targets": [subject.target for subject in run.subjects],
        "cases": len(run.cases),
        "headline": number,
    }


def _headline(run: Run) -> tuple[Case | None, Stat | None]:
    """The first case that has a number, and the number."""
    for case in run.cases:
        stat = headline(case)
        if stat is not None:
            return case, stat
    return next(iter(run.cases), None), None


def _verdict(run: Run) -> str:
    if run.profile is not None:
        word = bound(run.profile)
        return word if run.status == "complete" else f"{word}, {run.status}"
    if run.status in ("complete", "failed"):
        return "failed" if run.cases and all(c.status == "failed" for c in run.cases) else run.trust
    return run.status if run.status == "running" else f"{run.trust}, {run.status}"


def _when(run: Run) -> str:
    """In the reader's own time zone."""
    try:
        return f"{datetime.fromisoformat(run.started).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return one_line(run.started)
