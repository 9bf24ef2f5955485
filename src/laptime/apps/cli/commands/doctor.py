"""Show what this machine can measure, and the smallest difference it can show."""

from __future__ import annotations

import click

from laptime.apps.cli.options import report_options
from laptime.apps.cli.output import Delivery
from laptime.apps.cli.progress import progress


@click.command("doctor")
@click.option("--quick", is_flag=True, help="Skip what takes long: do not measure peak rates.")
@click.option("--fresh", is_flag=True, help="Measure the peak rates again, even if they are stored.")
@report_options
def command(*, delivery: Delivery, quick: bool, fresh: bool) -> int:
    """Show what this machine can measure, and the smallest difference it can show.

    Checks limits, clocks, other processes, timers, devices and energy meters; measures peak rates (stored
    until the machine changes) and times a program against itself. Every warning comes with the command that
    fixes it; laptime itself changes nothing.
    """
    # Not at the top: `laptime --help` imports no verb.
    from laptime.reports.documents.doctor import document
    from laptime.verbs.doctor import examine

    with progress(quiet=delivery.voice.quiet) as listener:
        report = examine(quick=quick, fresh=fresh, emit=listener)
    return delivery.deliver(document(report))
