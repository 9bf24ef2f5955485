"""Progress on stderr: a line that moves on a terminal, else one line a case.

It is drawn only when an event comes. A thread that redraws by itself would take a CPU from the program
being measured, just while that is being timed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from laptime.apps.cli.error_boundary import one_line
from laptime.records.event import CaseAdded, CaseChanged, Event, Listener, Progress, ignore

_MOST = 0.99
"""Share that is shown at most while anything is still going on."""

Describe = Callable[[Event], list[str]]
"""The lines that stay of an event: above the bar on a terminal, on their own elsewhere."""


@contextmanager
def progress(*, quiet: bool, describe: Describe | None = None) -> Iterator[Listener]:
    """A listener that shows where the work is; gone without a trace when the block ends.

    Args:
        describe: without it, cases are described where there is no bar.
    """
    if quiet:
        yield ignore
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _bar(describe or (lambda event: [])) as show:
            yield show
    else:
        yield _lines(describe or Cases())


def _lines(describe: Describe) -> Listener:
    def show(event: Event) -> None:
        for line in describe(event):
            click.echo(one_line(line), err=True)

    return show


class Cases:
    """Describes every case that begins, and every one that fails."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._failed: set[str] = set()

    def __call__(self, event: Event) -> list[str]:
        """What is new in this event."""
        if not isinstance(event, CaseAdded | CaseChanged):
            return []
        case, lines = event.case, []
        if case.key not in self._begun:
            self._begun.add(case.key)
            lines.append(f"measuring {case.key}")
        if case.status == "failed" and case.failure and case.key not in self._failed:
            self._failed.add(case.key)
            lines.append(f"failed    {case.key}: {case.failure.what}")
        return lines


@contextmanager
def _bar(describe: Describe) -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %", markup=False),
        TextColumn("{task.elapsed:.0f} s", markup=False),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR"))),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = bar.add_task("starting", total=1.0, left="")
    reached = 0.0

    def show(event: Event) -> None:
        nonlocal reached
        bar.start()  # with the first event: until then the terminal is the script's
        for line in describe(event):
            bar.console.print(one_line(line), markup=False, highlight=False, soft_wrap=True)
        if isinstance(event, Progress):
            # Steps after the timing know no share of their own; the bar does not run backwards for them.
            left = _left(event.remaining) if event.done >= reached else ""
            # What follows the last sample takes its time, too: all is done when the result is there.
            reached = min(_MOST, max(reached, event.done))
            bar.update(task, completed=reached, description=one_line(event.text), left=left)
            bar.refresh()

    try:
        yield show
    finally:
        bar.stop()


def _left(seconds: float) -> str:
    """`42 s left`, `3 min left`; nothing when it is not worth a word."""
    if seconds < 1:
        return ""
    return f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"
