"""List stored runs, newest first."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, one_line, pass_voice
from laptime.apps.cli.options import store_option, voice_options
from laptime.kit.clock import moment
from laptime.kit.text import count
from laptime.kit.units import show, show_interval
from laptime.records.profile import BOUND
from laptime.store import folder, index
from laptime.store.index import ListedRun

if TYPE_CHECKING:
    from laptime.reports.document import Document

_FIELDS = ("status", "verb", "name", "started", "verdict", "bound", "targets", "cases", "headline")
_WIDE, _NARROW = 100, 80
"""Columns below which the time and a long verdict go, as a run's id begins with its time; then the name."""
_MOST = 5000  # rows of a page


@click.command("list")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Runs to list, at most."
)
@click.option("--all", "everything", is_flag=True, help="List all runs.")
@click.option("-o", "--output", "outputs", multiple=True, metavar="FILE", help="Write a page of all runs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
@voice_options
@pass_voice
def command(voice: Voice, /, limit: int, everything: bool, outputs: tuple[str, ...], as_json: bool) -> None:
    """List stored runs, newest first; -o writes a page of all runs that can be searched.

    Interrupted runs keep what was measured until then. Damaged files are listed, too.

    \b
    laptime list --all
    laptime list -o runs.html
    """
    reports = output.plan_reports(outputs)
    found, total = index.listing(limit=None if everything or reports else limit)
    lines = [*found] if as_json or reports else []  # 1 kB each: a table of 100,000 takes them as they come
    shown = islice(lines or found, None if everything else limit)
    if as_json:
        output.result(output.json_text(_data(shown)))
    elif not total:
        voice.say(f"no runs are stored under {folder.home()}   next: laptime bench torchvision:resnet18")
    else:
        is_known = sys.stdout.isatty() or os.environ.get("COLUMNS")
        wide = shutil.get_terminal_size().columns if is_known else _WIDE
        long = wide >= _WIDE
        columns: dict[str, Callable[[ListedRun], str]] = {"run": lambda line: line.id}
        columns |= {"when": _when} if long else {}
        columns |= {"verdict": _verdict if long else lambda line: _verdict(line).rpartition(", ")[2]}
        columns |= {"median": _number, "of": _subject}
        columns |= {"name": lambda line: line.name} if wide >= _NARROW else {}
        rows = [[one_line(of(line)) for of in columns.values()] for line in shown]
        output.result(output.table([*columns], rows, right=("median",), whole=("when", "verdict")))
        if total > len(rows):
            is_part = click.get_current_context().params["store"]  # the rest is not counted
            older = "older runs are" if is_part else count(total - len(rows), "older run")
            voice.say(f"{older} not shown   next: laptime list --all")
    for error in output.write(document(lines), reports, voice=voice) if reports else ():
        raise error


def document(lines: Sequence[ListedRun]) -> Document:
    """All runs as a page: how the number of each moved over runs of the same thing, too."""
    from laptime.reports import document as doc  # not for a list on a terminal
    from laptime.reports._words import TONES
    from laptime.reports.fields import Field, tabulate

    def number(line: ListedRun) -> doc.Cell:
        found = line.headline
        if found is None or not found.ci95 or not found.value:
            return doc.Cell(_number(line), found.value if found else None)
        return doc.Cell(_number(line), found.value, show_interval(found.ci95, found.value, found.unit))

    def verdict(line: ListedRun) -> doc.Cell:
        word = _verdict(line)
        return doc.Cell(word, tone=next((each for each in word.split(", ") if each in TONES), ""))

    fields = [
        Field("run", "id", "code"),
        Field("of", _subject),
        Field("median", number, "number", "The number that the run is known by; of a profile, a step."),
        Field("history", _histories(lines), note="This number in older runs of the same thing, up to this."),
        Field("verdict", verdict),
        Field("command", "verb"),
        Field("when", _when),
        Field("name", "name"),
    ]
    words = Counter(_verdict(line).partition(",")[0] for line in lines)
    tally = ", ".join(f"{number:,} {word}" for word, number in words.items()) or "none is stored yet"
    shows = [f"laptime show {line.id} -o report.html" for line in lines[:1]]
    return doc.Document(
        verb="list",
        title="Stored runs",
        verdict=doc.Headline(count(len(lines), "run"), "neutral", tally, next=shows),
        sections=[doc.Section("all", "Runs", [tabulate("runs", fields, lines, most=_MOST)])],
        data=lambda: _data(lines),
        about="laptime history draws each number over its runs, and looks for changes of level.",
    )


def _histories(lines: Sequence[ListedRun]) -> Callable[[ListedRun], str]:
    """The line of blocks of a run: its number, and that of older runs of the same thing."""
    from laptime.reports.documents.history import sparkline

    values, drawn = defaultdict[tuple[str, ...], list[float]](list), dict[str, str]()
    for line in reversed(lines):
        if (found := line.headline) is not None and found.value is not None and line.verdict != "invalid":
            seen = values[line.verb, found.case or _subject(line), found.tag, found.unit]
            seen.append(found.value)
            drawn[line.id] = sparkline(seen[-20:]) if len(seen) > 1 else ""
    return lambda line: drawn.get(line.id, "")


def _data(lines: Iterable[ListedRun]) -> dict[str, Any]:
    return {"schema": "laptime.list/1", "runs": [_record(line) for line in lines]}


def _record(line: ListedRun) -> dict[str, Any]:
    path = str(folder.home() / line.path)
    if line.fault:
        return {"id": line.id, "path": path, "status": "damaged", "reason": line.fault}
    return {"id": line.id, "path": path, **{field: getattr(line, field) for field in _FIELDS}}


def _number(line: ListedRun) -> str:
    found = line.headline
    text = show(found.value, found.unit, found.ci95) if found else "-"
    return f"{text} a step" if line.bound else text


def _subject(line: ListedRun) -> str:
    others = f" and {count(line.cases - 1, 'more case')}" if line.cases > 1 else ""
    return line.fault or (line.first_case or ", ".join(line.targets)) + others


def _verdict(line: ListedRun) -> str:
    """One word, and how the run ended if that is not well."""
    if line.fault:
        return "damaged"
    if line.bound:
        word = BOUND[line.bound]
        return word if line.status == "complete" else f"{word}, {line.status}"
    if line.status in ("complete", "failed"):
        return "failed" if line.is_failed else line.verdict
    return line.status if line.status == "running" else f"{line.verdict}, {line.status}"


def _when(line: ListedRun) -> str:
    """Format a time in the reader's own time zone."""
    try:
        return f"{moment(line.started).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return line.started
