"""Progress on stderr: a line that moves on a terminal, else one line a case.

It is drawn only when an event comes. A thread that redraws by itself would take a CPU from the program
being measured, just while that is being timed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from laptime.apps.cli.error_boundary import one_line
from laptime.records.event import CaseAdded, CaseChanged, Event, Progress


@dataclass(frozen=True)
class Said:
    """A line that stays: above the bar on a terminal, on its own elsewhere."""

    text: str


Listener = Callable[[Event | Said], None]


@contextmanager
def progress(*, quiet: bool) -> Iterator[Listener]:
    """A listener that shows where the measurement is; gone without a trace when the block ends."""
    if quiet:
        yield lambda event: None
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _bar() as bar:
            yield bar
    else:
        yield Lines()


class Lines:
    """A line for every case that begins, and for every one that fails."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._failed: set[str] = set()

    def __call__(self, event: Event | Said) -> None:
        """Say what is new in this event."""
        if isinstance(event, Said):
            click.echo(one_line(event.text), err=True)
        if not isinstance(event, CaseAdded | CaseChanged):
            return
        case = event.case
        if case.key not in self._begun:
            self._begun.add(case.key)
            click.echo(f"measuring {one_line(case.key)}", err=True)
        if case.status == "failed" and case.failure and case.key not in self._failed:
            self._failed.add(case.key)
            click.echo(f"failed    {one_line(case.key)}: {one_line(case.failure.what)}", err=True)


@contextmanager
def _bar() -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %", markup=False),
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

    def listen(event: Event | Said) -> None:
        nonlocal reached
        if isinstance(event, Said):
            bar.console.print(one_line(event.text), markup=False, highlight=False, soft_wrap=True)
        elif isinstance(event, Progress):
            # Steps after the timing know no share of their own; the bar does not run backwards for them.
            left = _left(event.remaining) if event.done >= reached else ""
            reached = max(reached, event.done)
            bar.update(task, completed=reached, description=one_line(event.text), left=left)
            bar.refresh()

    with bar:
        yield listen


def _left(seconds: float) -> str:
    """`42 s left`, `3 min left`; nothing when it is not worth a word."""
    if seconds < 1:
        return ""
    return f"{seconds:.0f} s left" if seconds < 120 else f"{seconds / 60:.0f} min left"
