"""List stored runs, newest first."""

from __future__ import annotations

from typing import Any

import click

from laptime.apps.cli.error_boundary import Voice, one_line, pass_voice
from laptime.apps.cli.options import voice_options
from laptime.apps.cli.output import json_text, result, table
from laptime.kit.clock import moment
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.profile import BOUND
from laptime.store import folder, index
from laptime.store.index import ListedRun

_FIELDS = ("status", "verb", "name", "started", "verdict", "bound", "targets", "cases", "headline")


@click.command("list")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Runs to list, at most."
)
@click.option("--all", "everything", is_flag=True, help="List all runs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@voice_options
@pass_voice
def command(voice: Voice, /, limit: int, everything: bool, as_json: bool) -> None:
    """List stored runs, newest first.

    Interrupted runs keep what was measured until then. Damaged files are listed, too.
    """
    lines, total = index.listing(limit=None if everything else limit)
    if as_json:
        document = {"schema": "laptime.list/1", "runs": [_record(line) for line in lines]}
        result(json_text(document))
        return
    if not total:
        voice.say(f"no runs are stored under {folder.home()}   next: laptime bench torchvision:resnet18")
        return
    result(
        table(("run", "when", "verdict", "median", "of", "name"), [_row(line) for line in lines],
              right=("median",), whole=("when", "verdict"))
    )  # fmt: skip
    if total > len(lines):
        voice.say(f"{count(total - len(lines), 'older run')} not shown   next: laptime list --all")


def _row(line: ListedRun) -> tuple[str, ...]:
    if line.fault:
        return line.id, "", "damaged", "-", one_line(line.fault), ""
    others = f" and {count(line.cases - 1, 'more case')}" if line.cases > 1 else ""
    number = line.headline
    text = show(number.value, number.unit, number.ci95) if number else "-"
    return (
        line.id,
        _when(line),
        _verdict(line),
        f"{text} a step" if line.bound else text,
        one_line((line.first_case or ", ".join(line.targets)) + others),
        one_line(line.name),
    )


def _record(line: ListedRun) -> dict[str, Any]:
    path = str(folder.home() / line.path)
    if line.fault:
        return {"id": line.id, "path": path, "status": "damaged", "reason": line.fault}
    return {"id": line.id, "path": path, **{field: getattr(line, field) for field in _FIELDS}}


def _verdict(line: ListedRun) -> str:
    if line.bound:
        word = BOUND[line.bound]
        return word if line.status == "complete" else f"{word}, {line.status}"
    if line.status in ("complete", "failed"):
        return "failed" if line.is_failed else line.verdict
    return line.status if line.status == "running" else f"{line.verdict}, {line.status}"


def _when(line: ListedRun) -> str:
    """In the reader's own time zone."""
    try:
        return f"{moment(line.started).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return one_line(line.started)
