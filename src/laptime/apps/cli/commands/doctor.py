"""What this machine can measure, and the smallest difference it can show."""

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
@click.option("--quick", is_flag=True, help="Only what takes a few seconds: measures no peaks.")
@click.option("--fresh", is_flag=True, help="Measure the peaks again, although they are known.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@voice_options
@click.pass_context
def command(context: click.Context, *, quick: bool, fresh: bool, as_json: bool) -> int:
    """What this machine can measure, and the smallest difference it can show.

    Looks at limits, clocks, neighbours, timers, devices and energy meters; measures what the hardware can do
    (kept until the machine changes), and a program against itself. A line that says warn ends with the
    command that mends it; laptime itself changes nothing.
    """
    # Not at the top: `laptime --help` imports no verb.
    from laptime.reports import _doctor as report
    from laptime.verbs.doctor import examine

    voice = context.find_object(Voice) or Voice()
    with progress(quiet=voice.quiet) as show:
        found = examine(quick=quick, fresh=fresh, emit=show)
    if as_json:
        output.result(report.to_json(found))
    else:
        width = (
            shutil.get_terminal_size().columns if sys.stdout.isatty() or os.environ.get("COLUMNS") else 100
        )
        output.result(report.to_text(found, width=width, color=output.wants_color()))
    return 0
