"""Progress on stderr: a line that moves on a terminal, else one line a case.

It is drawn only when an event comes. A thread that redraws by itself would take a CPU from the program
being measured, just while that is being timed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from laptime.apps.cli.error_boundary import one_line
from laptime.kit.units import show
from laptime.records import event as events
from laptime.records.event import Event, Listener

if TYPE_CHECKING:
    from laptime.records.tuning import Diagnosis, Rung

_MOST = 0.99  # share that is shown at most while anything is still going on
Describe = Callable[[Event], list[str]]  # the lines that stay of an event: above the bar, or on their own


@contextmanager
def progress(*, quiet: bool, describe: Describe | None = None) -> Iterator[Listener]:
    """A listener that shows where the work is; gone without a trace when the block ends. describe: without
    it, cases are described if there is no bar."""
    if quiet:
        yield events.ignore
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _bar(describe or (lambda event: [])) as listener:
            yield listener
    else:
        described = describe or Cases()

        def show_event(event: Event) -> None:
            for line in described(event):
                click.echo(one_line(line), err=True)

        yield show_event


class Cases:
    """Describes every case that begins, and every one that fails."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._failed: set[str] = set()

    def __call__(self, event: Event) -> list[str]:
        """Return the new lines of this event."""
        if not isinstance(event, events.CaseAdded | events.CaseChanged):
            return []
        case, lines = event.case, []
        if case.key not in self._begun:
            self._begun.add(case.key)
            lines.append(f"measuring {case.key}")
        if case.status == "failed" and case.failure and case.key not in self._failed:
            self._failed.add(case.key)
            lines.append(f"failed    {case.key}: {case.failure.what}")
        return lines


class Lines:
    """The lines that stay of a session: each decision once, and again if it has changed."""

    def __init__(self, items: str = "") -> None:
        """`items`: what a rate counts; "": samples, or steps."""
        self._items = items
        self._decided: dict[tuple[str, str], tuple[str, bool, bool, str]] = {}

    def __call__(self, event: Event) -> list[str]:
        """Return the lines about this event."""
        from laptime.reports.documents.tuning import words  # not for `laptime --help`

        match event:
            case events.Diagnosed(diagnosis):
                return [_say_diagnosis(diagnosis)]
            case events.RungDecided(rung) if rung.verdict != "not tried":  # the report names them
                decision = (rung.verdict, rung.kept, rung.dropped, "" if rung.kept else rung.reason)
                key = (rung.label or rung.name, str(rung.ratios))
                is_news = self._decided.get(key) != decision
                self._decided[key] = decision
                return [_say_decision(rung)] if is_news else []
            case events.GainMeasured(baseline, final):
                rates = f"{words.rate(baseline)} -> {words.rate(final)}"
                return [f"measured again: {rates} {self._items or words.name_counted(final)}/s"]
        return []


def _say_diagnosis(diagnosis: Diagnosis) -> str:
    from laptime.reports.documents.tuning import words

    if not diagnosis.bound:
        names = ", ".join(map(words.change, diagnosis.recipe)) or "as it is"
        call = f"a call takes {show(diagnosis.step, 's')}"
        return f"{names}: {diagnosis.sentence or call}"
    recipe = f" with {', '.join(map(words.change, diagnosis.recipe))}" if diagnosis.recipe else ""
    bound = f"bound by {diagnosis.bound}: {diagnosis.sentence}".removesuffix(": ")
    return f"diagnosed{recipe}: a step takes {show(diagnosis.step, 's')}, {bound}"


def _say_decision(rung: Rung) -> str:
    from laptime.reports.documents.tuning import words

    effect = words.effect(rung.speedup, rung.ci95)
    result = rung.verdict if effect == "-" else f"{effect} {rung.verdict}"
    if rung.verdict in ("smaller", "larger"):
        speed = "" if effect == "-" else f" at {effect} the speed"
        result = f"{words.ratio(rung.memory)} the memory{speed}"
    decision = "dropped" if rung.dropped else "kept" if rung.kept else ""
    gate = f"gate {rung.gate.word}" if rung.gate.word != "none" else ""
    line = ", ".join(filter(None, [f"{words.change(rung)}: {result}", gate, decision]))
    reason = words.reason(rung)
    is_told = not rung.kept or rung.speedup is None  # of what won together, the reason says with what
    return f"{line}: {reason}" if reason and is_told else line


@contextmanager
def _bar(describe: Describe) -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    texts = ("{task.percentage:>3.0f} %", "{task.elapsed:.0f} s", "{task.fields[left]}", "{task.description}")
    bar = Bar(
        BarColumn(bar_width=24),
        *(TextColumn(text, markup=False) for text in texts),
        console=Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR"))),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = bar.add_task("starting", total=1.0, left="")
    reached = 0.0

    def show_event(event: Event) -> None:
        nonlocal reached
        bar.start()  # with the first event: until then the terminal is the script's
        for line in describe(event):
            bar.console.print(one_line(line), markup=False, highlight=False, soft_wrap=True)
        if isinstance(event, events.Progress):
            # Steps after the timing know no share of their own; the bar does not run backwards for them.
            left = _say_left(event.remaining) if event.done >= reached else ""
            # What follows the last sample takes its time, too: all is done when the result is there.
            reached = min(_MOST, max(reached, event.done))
            bar.update(task, completed=reached, description=one_line(event.text), left=left)
            bar.refresh()

    try:
        yield show_event
    finally:
        bar.stop()


def _say_left(seconds: float) -> str:
    """`42 s left`, `3 min left`; nothing when it is not worth a word."""
    if seconds < 1:
        return ""
    return f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"
