"""Show what this machine can measure, and the smallest difference it can show."""

from __future__ import annotations

import os
import shutil
import sys

import click

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.options import voice_options
from laptime.apps.cli.progress import progress


@click.command("doctor")
@click.option("--quick", is_flag=True, help="Only what takes a few seconds: peak rates are not measured.")
@click.option("--fresh", is_flag=True, help="Measure the peak rates again, even if they are stored.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@voice_options
@click.pass_context
def command(context: click.Context, *, quick: bool, fresh: bool, as_json: bool) -> int:
    """Show what this machine can measure, and the smallest difference it can show.

    Checks limits, clocks, other processes, timers, devices and energy meters; measures peak rates (stored
    until the machine changes) and times a program against itself. Every warning comes with the command that
    fixes it; laptime itself changes nothing.
    """
    # Not at the top: `laptime --help` imports no verb.
    from laptime.reports import _doctor as report
    from laptime.verbs.doctor import examine

    voice = context.find_object(Voice) or Voice()
    with progress(quiet=voice.quiet) as show:
        examined = examine(quick=quick, fresh=fresh, emit=show)
    if as_json:
        output.result(report.to_json(examined))
    else:
        width = (
            shutil.get_terminal_size().columns if sys.stdout.isatty() or os.environ.get("COLUMNS") else 100
        )
        output.result(report.to_text(examined, width=width, color=output.wants_color()))
    return 0
